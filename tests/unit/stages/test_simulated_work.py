"""What a worker's task does on a simulated card, stage by stage."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rigproof.records.crews import Member
from rigproof.records.measurements import Event, MemoryReading, Round
from rigproof.simulation.faults.injected import StageWindow
from rigproof.simulation.rig import SimulatedRig
from rigproof.simulation.stage import Timed
from rigproof.simulation.work.run import RunningTask
from rigproof.simulation.work.task import WorkerFrozen, WorkerKilled
from rigproof.stages.feeding.stage import RewardBatch
from rigproof.stages.kind import StageWork
from rigproof.stages.registry import KINDS
from support.simulated import DUAL, rig_named, simulated

START_S = 1.0
CPUS = {"pc1": 80.0, "pc2": 16.0}


def work(stage: str, *faults: str, seed: int = 0, generation: int = 0, name: str = DUAL) -> RunningTask:
    """The first card's task in a stage that begins at START_S."""
    rig: SimulatedRig = simulated(rig_named(name), *faults, level="extended", seed=seed)
    planned = rig.plan.stage(stage)
    worker = rig.plan.workers[0]
    node = rig.node(worker.node)
    node.stages = (StageWindow(stage, START_S, planned.expected_s),)
    spec = KINDS[stage].specs(StageWork(rig.loaded, rig.plan, planned, CPUS))[worker.worker]
    return RunningTask(node, worker, spec, START_S, crew=Member(worker.subject), generation=generation)


def all_of(one: RunningTask) -> list[Timed]:
    return list(one.until(1e6))


def rounds(records: list[Timed]) -> list[Round]:
    return [one for one in records if isinstance(one, Round)]


def events(records: list[Timed], kind: str) -> list[Event]:
    return [one for one in records if isinstance(one, Event) and one.kind == kind]


@pytest.mark.parametrize("stage", ["gemm", "sustained", "pattern", "training", "feeding", "sharing"])
def test_a_healthy_task_ends_well_in_the_time_of_its_stage(stage: str) -> None:
    one = work(stage)
    records = all_of(one)
    assert one.ended == "finished"
    assert rounds(records)
    assert all(found.verified for found in rounds(records))
    assert not events(records, "oom")
    planned_s = simulated(rig_named(DUAL), level="extended").plan.stage(stage).expected_s
    assert max(found.t_s for found in records) <= START_S + planned_s + 1.5


@pytest.mark.parametrize("stage", ["gemm", "sustained", "pattern", "training", "feeding", "sharing"])
def test_a_seed_gives_the_same_records(stage: str) -> None:
    assert all_of(work(stage, seed=1)) == all_of(work(stage, seed=1))
    assert all_of(work(stage, seed=1)) != all_of(work(stage, seed=2))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0.0, 700.0), max_size=20))
def test_polls_at_any_moments_give_the_same_records(moments: list[float]) -> None:
    one = work("sustained")
    polled = [found for t_s in sorted(moments) for found in one.until(t_s)] + all_of(one)
    assert polled == all_of(work("sustained"))


def test_nothing_is_reported_before_its_time() -> None:
    one = work("sustained")
    assert all(found.t_s <= 20.0 for found in one.until(20.0))
    assert one.ended is None


def test_gemm_measures_every_precision_near_its_steady_rate() -> None:
    measured = [one for one in rounds(all_of(work("gemm"))) if one.phase == "measure"]
    assert {one.label("precision") for one in measured} == {"fp32", "tf32", "fp16", "bf16"}
    bf16 = [one.work / one.seconds for one in measured if one.label("precision") == "bf16"]
    assert sum(bf16) / len(bf16) == pytest.approx(78, rel=0.02)


def test_sustained_reads_its_memory_up_to_the_end() -> None:
    records = all_of(work("sustained"))
    readings = [one for one in records if isinstance(one, MemoryReading)]
    assert max(one.t_s for one in records) - readings[-1].t_s < 5
    assert readings[-1].allocated_mib == pytest.approx(0.72 * 24576)
    assert readings[-1].device_free_mib == pytest.approx(0.28 * 24576 - 300 - 474, abs=5)


def test_training_is_faster_in_16_bit_and_finds_its_largest_batch() -> None:
    records = all_of(work("training"))
    compared = [one for one in rounds(records) if one.label("part") == "precision" and one.phase == "measure"]
    step_s = {one.label("precision"): one.seconds / (one.label("steps") or 1) for one in compared}
    assert step_s["fp32"] / step_s["fp16"] == pytest.approx(2.7, rel=0.03)
    [largest] = [one for one in events(records, "batch_search") if one.data["what"] == "largest"]
    assert largest.data["peak_mib"] < 24576


def test_feeding_compares_rewards_and_computes_them_in_parallel() -> None:
    batches = [one for one in all_of(work("feeding")) if isinstance(one, RewardBatch)]
    assert {one.mode for one in batches} == {"sequential", "parallel"}
    assert all(one.matches is not False for one in batches)


def test_sharing_divides_what_the_contexts_leave() -> None:
    for number, event in enumerate(events(all_of(work("sharing")), "allocation"), 1):
        assert event.data["workers"] == number
        assert event.data["allocated_mib"] <= 24576 - 300 - (number + 1) * 470


def test_an_out_of_memory_is_an_event_of_the_allocator() -> None:
    records = all_of(work("sustained", "oom@pc1/gpu0"))
    found = events(records, "oom")
    assert found
    assert all(one.message.startswith("CUDA out of memory. Tried to allocate") for one in found)
    readings = [one for one in records if isinstance(one, MemoryReading)]
    assert readings[-1].ooms == len(found)


def test_a_hung_kernel_reports_nothing_more_and_does_not_end() -> None:
    one = work("sustained", "hung-kernel@pc1/gpu0")
    records = all_of(one)
    assert one.ended is None
    length_s = simulated(rig_named(DUAL), level="extended").plan.stage("sustained").expected_s
    assert max(found.t_s for found in records) < START_S + 0.31 * length_s


def test_a_lost_card_ends_the_task_with_cudas_error() -> None:
    one = work("sustained", "gpu-lost@pc1/gpu0")
    all_of(one)
    assert one.ended == "failed"
    assert "CUDA error" in (one.error or "")


@pytest.mark.parametrize("stage", ["gemm", "sustained", "pattern", "training", "feeding", "sharing"])
def test_an_uncorrectable_memory_error_ends_what_runs(stage: str) -> None:
    one = work(stage, f"ecc-uncorrected@localhost/gpu0:stage={stage}", name="h200-x2")
    records = all_of(one)
    assert one.ended == "failed"
    assert "uncorrectable ECC error" in (one.error or "")
    assert rounds(records)


@pytest.mark.parametrize("stage", ["gemm", "training", "feeding", "sharing"])
def test_a_hung_kernel_of_another_stage_hangs_there(stage: str) -> None:
    one = work(stage, f"hung-kernel@pc1/gpu0:stage={stage}")
    assert rounds(all_of(one))
    assert one.ended is None


@pytest.mark.parametrize("stage", ["gemm", "sharing"])
def test_a_bit_that_flips_in_another_stage_is_reported_there(stage: str) -> None:
    records = all_of(work(stage, f"bit-flip@pc1/gpu0:stage={stage}"))
    assert {one.stage for one in events(records, "wrong_result")} == {stage}
    assert not all(one.verified for one in rounds(records))


def test_the_rate_of_a_round_is_that_of_the_clock_at_its_time() -> None:
    slow = rounds(all_of(work("gemm", "clock-stuck@pc1/gpu0:stage=gemm,to=987")))
    bf16 = [one.work / one.seconds for one in slow if one.label("precision") == "bf16"]
    assert bf16[-1] == pytest.approx(78 * 987 / (0.94 * 2100), rel=0.02)


@pytest.mark.parametrize(("fault", "way"), [("worker-killed", WorkerKilled), ("worker-frozen", WorkerFrozen)])
def test_what_hits_a_process_does_not_hit_the_one_that_takes_over(fault: str, way: type[Exception]) -> None:
    with pytest.raises(way):
        all_of(work("sustained", f"{fault}@pc1/gpu0"))
    second = work("sustained", f"{fault}@pc1/gpu0", generation=1)
    all_of(second)
    assert second.ended == "finished"


def test_stages_that_fill_the_memory_and_compare_what_it_holds_notice_a_stuck_bit() -> None:
    verifying = {one.name for one in KINDS if one.simulated.verifies_memory}
    assert verifying == {"sustained", "pattern", "sharing"}
