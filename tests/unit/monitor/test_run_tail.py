"""The run that goes on, read from the end of its recording while it grows."""

import os
import time
from dataclasses import replace

import pytest

from rigproof.monitor.run_tail import SILENT_S, RunTail
from rigproof.monitor.snapshot import RunStage, RunWorker
from rigproof.records.disk.store import RecordingWriter
from rigproof.records.identity import RunInfo, WorkerIdentity
from rigproof.records.limits import RECORDING_LINE_BYTES_MAX
from rigproof.records.measurements import TFLOP, Event, Rate, Round, Stage
from support.recordings import gpu_identity
from support.rig_profile import loaded_rig

BEGAN_S = 1767323045  # 2026-01-02T03:04:05Z


class Running:
    """A run that is being written; its clock is the disk's."""

    def __init__(self, reports, name="20260102T030405Z-two-nodes-a1b2c3", **info):
        self.folder = reports / "runs" / name
        self.folder.mkdir(parents=True)
        run = RunInfo(name, "2026-01-02T03:04:05Z", "standard", "0", "3.11", loaded_rig().dump(), ("gemm",))
        self.writer = RecordingWriter(self.folder, replace(run, **info))

    def add(self, *records):
        self.writer.extend(records)
        self.writer.flush()
        self.written(0.0)

    def written(self, ago_s):
        """Let it have been written that long before run time 40 s."""
        for path in self.folder.iterdir():
            os.utime(path, (BEGAN_S + 40 - ago_s,) * 2)


@pytest.fixture
def begin(tmp_path):
    """Begins runs below tmp_path."""
    runs = []

    def begin(*name, **info):
        runs.append(Running(tmp_path, *name, **info))
        return runs[-1]

    yield begin
    for run in runs:
        run.writer.close()


@pytest.fixture
def running(begin):
    run = begin()
    run.written(1.0)
    return run


def now(tail):
    return tail.now(BEGAN_S + 40.0)


def worker(name, t_s, generation=0):
    subject = name.partition("#")[0]
    uuid = f"GPU-{subject}"
    return WorkerIdentity(
        name, subject, subject[:3], "cuda", uuid, 9, t_s, "2.13", "13", ("bf16",), generation
    )


def a_round(name, t_s, stage="sustained", **fields):
    subject = name.partition("#")[0]
    return Round(
        t_s,
        stage,
        name,
        subject,
        "measure",
        0.5,
        100.0,
        TFLOP,
        True,
        {"precision": "bf16", "size": 1024},
        **fields,
    )


def event(kind, worker_name, t_s=35.0, message="it happened"):
    subject = worker_name.partition("#")[0]
    return Event(t_s, kind, subject, message, "sustained", worker_name if "#" in worker_name else None)


SUSTAINED = Stage("sustained", 20.0, workers=("pc1/gpu0#0", "pc2/gpu0#0"), settings={"expected_s": 110.0})


def states(run):
    return {one.worker: one.state for device in run.devices for one in device.workers}


def test_a_run_that_has_only_begun(running, tmp_path):
    run = now(RunTail(tmp_path))
    assert (run.run_id, run.level, run.simulated) == (running.folder.name, "standard", False)
    assert (run.elapsed_s, run.silent_s, run.stage) == (40.0, 1.0, None)
    assert [device.subject for device in run.devices] == ["pc1/gpu0", "pc2/gpu0"]
    assert states(run) == dict.fromkeys(("pc1/gpu0#0", "pc1/gpu0#1", "pc2/gpu0#0"), "starting")
    assert (run.ooms, run.ooms_limit, run.timeouts, run.losses) == (0, 0, (), ())


def test_stage_rates_and_workers_follow_what_is_written(running, tmp_path):
    tail = RunTail(tmp_path)
    running.add(gpu_identity("pc1/gpu0", "h200"), worker("pc1/gpu0#0", 4.0), worker("pc2/gpu0#0", 4.0))
    assert states(now(tail))["pc1/gpu0#0"] == "ready"
    running.add(SUSTAINED, *(a_round("pc1/gpu0#0", 30.0 + n / 2) for n in range(16)))
    run = now(tail)
    assert run.stage == RunStage("sustained", 20.0, 110.0)
    first, second = run.devices
    assert (first.uuid, first.rate, first.round_age_s) == ("GPU-pc1/gpu0", Rate(200.0, "TFLOP/s"), 2.5)
    assert (second.rate, second.round_age_s) == (None, None)
    assert first.workers == (RunWorker("pc1/gpu0#0", "working"), RunWorker("pc1/gpu0#1", "starting"))
    assert states(run)["pc2/gpu0#0"] == "ready"
    running.add(replace(SUSTAINED, end_s=39.0, status="finished"))
    ended = now(tail)
    assert (ended.stage, ended.devices[0].rate) == (None, None)
    assert states(ended)["pc1/gpu0#0"] == "ready"


def test_work_that_the_cpu_did_in_place_of_the_card_is_not_the_cards(running, tmp_path):
    running.add(SUSTAINED, worker("pc1/gpu0#0", 4.0), a_round("pc1/gpu0#0", 38.0, device="cpu"))
    run = now(RunTail(tmp_path))
    assert run.devices[0].rate is None
    assert states(run)["pc1/gpu0#0"] == "ready"


@pytest.mark.parametrize(
    ("kind", "state", "where"),
    [
        ("worker_died", "died", "losses"),
        ("worker_hung", "hung", "timeouts"),
        ("worker_failed", "failed", "losses"),
    ],
)
def test_a_worker_that_ends_is_reported_until_it_is_replaced(running, tmp_path, kind, state, where):
    tail = RunTail(tmp_path)
    running.add(worker("pc1/gpu0#0", 4.0), SUSTAINED, a_round("pc1/gpu0#0", 30.0), event(kind, "pc1/gpu0#0"))
    run = now(tail)
    assert states(run)["pc1/gpu0#0"] == state
    assert getattr(run, where) == ("pc1/gpu0#0: it happened",)
    running.add(worker("pc1/gpu0#0", 36.0, generation=1))
    assert states(now(tail))["pc1/gpu0#0"] == "working"


def test_timeouts_losses_and_ooms_are_counted(running, tmp_path):
    running.add(
        event("timeout", "pc2/gpu0", message="Get timed out"),
        event("agent_died", "pc2"),
        event("oom", "pc1/gpu0#0"),
        event("oom", "pc1/gpu0#0"),
        event("allocation", "pc1/gpu0#0"),
    )
    run = now(RunTail(tmp_path))
    assert (run.timeouts, run.losses) == (("pc2/gpu0: Get timed out",), ("pc2: it happened",))
    assert (run.ooms, [device.ooms for device in run.devices]) == (2, [2, 0])


@pytest.mark.parametrize("subject", ["pc2", "pc2/gpu0"])
def test_what_is_missing_is_not_loaded(running, tmp_path, subject):
    running.add(event("node_missing" if subject == "pc2" else "gpu_skipped", subject))
    assert states(now(RunTail(tmp_path)))["pc2/gpu0#0"] == "not loaded"


def test_a_torn_last_line_is_read_when_it_is_whole(running, tmp_path):
    tail = RunTail(tmp_path)
    running.add(SUSTAINED)
    path = running.folder / "recording.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    running.written(0.0)
    assert now(tail).stage is None
    path.write_bytes(whole)
    running.written(0.0)
    assert now(tail).stage.name == "sustained"


def test_a_line_that_is_not_understood_is_passed_over(running, tmp_path):
    running.add(event("oom", "pc1/gpu0#0"))
    with (running.folder / "recording.jsonl").open("ab") as file:
        file.write(b'{"type":"of another version"}\nno json\n\xff\xfe\n')
    running.written(0.0)
    assert now(RunTail(tmp_path)).ooms == 1


def test_a_recording_that_was_cut_back_is_read_anew(running, tmp_path):
    tail = RunTail(tmp_path)
    path = running.folder / "recording.jsonl"
    before = path.read_bytes()
    running.add(event("oom", "pc1/gpu0#0"))
    assert now(tail).ooms == 1
    path.write_bytes(before)
    running.written(0.0)
    assert now(tail).ooms == 0


def test_it_only_reads(running, tmp_path):
    before = {path: path.read_bytes() for path in running.folder.iterdir()}
    now(RunTail(tmp_path))
    assert {path: path.read_bytes() for path in running.folder.iterdir()} == before


def test_a_run_that_has_ended_is_not_on(running, tmp_path):
    tail = RunTail(tmp_path)
    assert now(tail) is not None
    running.writer.close()
    running.written(0.0)
    assert now(tail) is None


def test_a_run_that_broke_off_is_not_on(running, tmp_path):
    running.written(SILENT_S + 1)
    assert now(RunTail(tmp_path)) is None


def test_the_newest_run_that_goes_on_is_shown(running, begin, tmp_path):
    newer = begin("20260102T030406Z-two-nodes-ffffff")
    newer.written(0.0)
    tail = RunTail(tmp_path)
    assert now(tail).run_id == newer.folder.name
    newer.writer.close()
    assert now(tail).run_id == running.folder.name


@pytest.mark.parametrize("folder", ["nowhere", ""])
def test_without_runs_there_is_none(tmp_path, folder):
    assert RunTail(tmp_path / folder).now(time.time()) is None


def test_a_profile_that_cannot_be_restored_leaves_the_run_without_devices(begin, tmp_path):
    run = begin(rig={"name": 3, "limits": "none"}, started_at="yesterday", simulated=True)
    run.add(SUSTAINED)
    found = now(RunTail(tmp_path))
    assert (found.devices, found.elapsed_s, found.stage, found.simulated) == ((), None, None, True)


def test_a_line_without_end_is_passed_over_and_not_kept(running, tmp_path):
    tail = RunTail(tmp_path)
    with (running.folder / "recording.jsonl").open("ab") as file:
        file.write(b"[" * (RECORDING_LINE_BYTES_MAX + 2 * 2**20))
    running.written(1.0)
    assert now(tail).ooms == 0
    assert len(tail._rest) == RECORDING_LINE_BYTES_MAX + 1
    with (running.folder / "recording.jsonl").open("ab") as file:
        file.write(b'\n{"type":"event","t_s":1,"kind":"oom","subject":"pc1/gpu0","message":"m"}\n')
    running.written(1.0)
    assert now(tail).ooms == 1


def test_a_recording_that_is_a_pipe_is_not_waited_for(running, tmp_path):
    (running.folder / "recording.jsonl").unlink()
    os.mkfifo(running.folder / "recording.jsonl")
    running.written(1.0)
    assert now(RunTail(tmp_path)) is None


@pytest.mark.parametrize("moment", ["", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00", "now"])
def test_a_moment_that_no_clock_has_is_no_moment(begin, tmp_path, moment):
    begin(started_at=moment).written(1.0)
    found = now(RunTail(tmp_path))
    assert found.elapsed_s is None or found.elapsed_s >= 0
