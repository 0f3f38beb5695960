from dataclasses import replace

import pytest

from rigproof.records.identity import WorkerIdentity
from rigproof.records.measurements import Event, Stage
from rigproof.records.samples import GpuSample
from rigproof.report.terminal.live_state import rate_of, state_of
from support.recordings import gemm_round

QUIET = frozenset({"allocation"})


def device(state, subject="pc1/gpu0"):
    (found,) = [one for one in state.devices if one.subject == subject]
    return found


def test_the_rate_is_work_over_time_of_the_last_five_seconds():
    rounds = [gemm_round(1, 1, 1000)] + [gemm_round(t, 1, 50) for t in (6, 7, 8, 9, 10)]
    assert rate_of(rounds) == 50
    assert rate_of([]) is None


def test_workers_that_share_a_device_add_up():
    rounds = [gemm_round(t, 1, 30, worker) for t in (7, 8, 9) for worker in ("a", "b")]
    assert rate_of(rounds) == 60


def test_idle_time_lowers_the_rate():
    assert rate_of([gemm_round(7, 1, 50), gemm_round(10, 1, 50)]) == 25


def test_the_state_of_a_run_in_its_load(recording, plan):
    recording.rounds = [one for one in recording.rounds if one.t_s <= 50]
    recording.gpu_samples = [one for one in recording.gpu_samples if one.t_s <= 50]
    state = state_of(recording, plan, 50.0, QUIET)
    assert device(state).rate_tflops == pytest.approx(71 * 0.97, rel=0.02)
    assert device(state).sample.t_s == 50.0
    assert (device(state).alive, device(state).planned) == (1, 1)
    assert state.hosts[0].subject == "pc1"
    assert 60 < state.hosts[0].cpu_percent < 90
    assert 0 < state.hosts[0].wakeup_p99_ms < 2
    assert state.troubles == 1
    assert state.stage is None


def test_what_is_old_is_no_state_of_now(recording, plan):
    state = state_of(recording, plan, 500.0, QUIET)
    assert device(state).rate_tflops is None
    assert device(state).sample is None
    assert state.hosts[0].cpu_percent is None
    assert state.hosts[0].wakeup_p99_ms is None


def test_an_empty_run_has_a_state(recording, plan):
    for name in ("rounds", "gpu_samples", "host_samples", "workers", "events"):
        setattr(recording, name, [])
    state = state_of(recording, plan, 0.5, QUIET)
    assert [(one.subject, one.alive, one.planned) for one in state.devices] == [
        ("pc1/gpu0", 0, 1),
        ("pc1/gpu1", 0, 1),
    ]
    assert state.troubles == 0


def test_a_dead_worker_is_not_alive_until_it_is_replaced(recording, plan):
    recording.add(Event(30.0, "worker_died", "pc1/gpu0", "killed", worker="pc1/gpu0#0"))
    assert device(state_of(recording, plan, 31.0, QUIET)).alive == 0
    first = recording.workers[0]
    recording.add(replace(first, t_s=32.0, pid=first.pid + 1, generation=1))
    assert isinstance(recording.workers[-1], WorkerIdentity)
    assert device(state_of(recording, plan, 33.0, QUIET)).alive == 1


def test_the_running_stage_is_measured_from_its_load(recording, plan):
    recording.stages["sustained"] = Stage("sustained", 24.5, loaded_from_s=30.0)
    stage = state_of(recording, plan, 47.5, QUIET).stage
    assert (stage.name, stage.elapsed_s, stage.expected_s, stage.share) == ("sustained", 17.5, 35.0, 0.5)
    assert state_of(recording, plan, 500.0, QUIET).stage.share == 1.0


def test_a_soak_is_read_from_its_end(recording, plan):
    recording.gpu_samples.extend([GpuSample(1.0, "pc1/gpu0")] * 30_000)
    recording.gpu_samples.append(GpuSample(60.0, "pc1/gpu0", power_w=1.0))
    assert device(state_of(recording, plan, 60.0, QUIET)).sample.power_w == 1.0
