import os
import signal
from contextlib import suppress
from dataclasses import replace

import psutil
import pytest

from rigproof.records.measurements import Event, Round
from rigproof.stages.feeding import workload as feeding
from rigproof.stages.feeding.stage import FeedingSpec, RewardBatch
from rigproof.stages.feeding.workload import run_feeding
from support.devices import RecordingContext

# A promise of 40 times sequential makes a step's generation short.
SPEC = FeedingSpec(
    "feeding",
    vram_mib=0.5,
    duration_s=0.6,
    round_s=0.002,
    completions=4,
    processes=2,
    strategy_s=5.0,
    strategy_memory_mib=64,
    overlap=True,
    reward_speedup=40.0,
)


@pytest.fixture(scope="module", autouse=True)
def _few_compared():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feeding, "COMPARED", 4)
        yield


@pytest.fixture(scope="module")
def done(cpu):
    """A whole run, to be looked at."""
    context = RecordingContext()
    run_feeding(SPEC, cpu, context)
    assert not pools()
    assert cpu.memory().allocated_mib == 0
    return context


def pools():
    """The processes that lead a pool of this one's."""
    found = []
    for one in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # gone meanwhile; a zombie has no command
            found += [one.pid] if any("reward_process" in part for part in one.cmdline()) else []
    return found


def of(context, kind):
    return [one for one in context.records if isinstance(one, kind)]


def test_rewards_are_compared_before_and_after_and_each_step_has_its_own(done):
    rewards = of(done, RewardBatch)
    compared = [one for one in rewards if one.matches is not None]
    sequential = [one for one in rewards if one.mode == "sequential"]
    steps = [one for one in rewards if one.mode == "parallel" and one.matches is None]
    assert len(compared) == len(sequential) >= 2
    assert all(one.matches for one in compared)
    assert {one.processes for one in sequential} == {1}
    assert {one.processes for one in steps + compared} == {2}
    assert {one.strategies for one in compared[:-1]} == {4}
    assert {one.strategies for one in steps} == {SPEC.completions}
    assert len(steps) >= 2
    assert all(one.seconds > 0 and one.timed_out == one.crashed == one.out_of_memory == 0 for one in rewards)
    assert (rewards[0], rewards[1], rewards[-1]) == (sequential[0], compared[0], compared[-1])


def test_generation_is_verified_and_no_comparison_falls_into_it(done):
    measured = [place for place, one in enumerate(done.records) if getattr(one, "phase", "") == "measure"]
    inside = done.records[measured[0] : measured[-1]]
    assert all(one.verified for one in of(done, Round))
    assert [one for one in inside if isinstance(one, RewardBatch)]
    assert not [one for one in inside if isinstance(one, RewardBatch) and one.matches is not None]
    assert not [one for one in inside if isinstance(one, RewardBatch) and one.mode == "sequential"]
    (event,) = done.events("generation")
    assert event.data["tokens"] >= 7


def test_a_step_takes_as_long_as_its_rewards_at_the_promised_speed_up(cpu, stopping_context):
    def has_an_event(context):
        return any(isinstance(one, Event) for one in context.records)

    aimed = {}
    for speedup in (10.0, 1000.0):
        context = stopping_context(has_an_event)
        run_feeding(replace(SPEC, reward_speedup=speedup, duration_s=60), cpu, context)
        (event,) = context.events("generation")
        sequential = sorted(
            one.seconds / one.strategies for one in of(context, RewardBatch) if one.mode == "sequential"
        )
        aimed[speedup] = event.data["aimed_s"] * speedup / sequential[len(sequential) // 2]
    # Strategies of a step: those of its completions that are valid.
    assert all(0 < strategies <= SPEC.completions for strategies in aimed.values())


def test_a_step_of_the_cpu_as_device_leaves_time_for_others(cpu, stopping_context):
    context = stopping_context(lambda context: bool(context.events("generation")))
    run_feeding(replace(SPEC, reward_speedup=0.01), cpu, context)
    (event,) = context.events("generation")
    assert event.data["aimed_s"] == SPEC.duration_s / 8


@pytest.mark.parametrize(("overlap", "ahead"), [(True, 2), (False, 1)])
def test_generation_goes_on_only_so_far_ahead_of_the_rewards(cpu, context, done, overlap, ahead):
    if overlap:
        context = done
    else:
        run_feeding(replace(SPEC, overlap=False), cpu, context)
    rounds = [one for one in of(context, Round) if one.phase == "measure"]
    warm = [one for one in of(context, Round) if one.phase == "warmup"]
    each = len(warm) // 2  # rounds of a step
    begun = rewarded = 0
    most = 0
    for one in context.records:
        if isinstance(one, Round) and one.phase == "measure":
            begun = -(-(rounds.index(one) + 1) // each)
        elif isinstance(one, RewardBatch) and one.mode == "parallel" and one.matches is None:
            rewarded += 1
        most = max(most, begun - rewarded)
    assert most == ahead


def test_stop_is_heard_while_comparing_and_while_generating(cpu, stopping_context):
    def compared(context):
        return bool(of(context, RewardBatch))

    def generated(context):
        return sum(one.phase == "measure" for one in context.rounds) >= 2

    for condition in (lambda context: True, compared, generated):
        context = stopping_context(condition)
        run_feeding(replace(SPEC, duration_s=600), cpu, context)
        assert sum(one.phase == "measure" for one in context.rounds) <= 2 + 2 * cpu.queue_depth
        assert not pools()
        assert cpu.memory().allocated_mib == 0


def test_a_pool_that_dies_ends_the_stage_with_its_status(cpu, stopping_context):
    def killed(context):
        if any(one.phase == "measure" for one in context.rounds):
            for pid in pools():
                os.kill(pid, signal.SIGKILL)
        return False

    with pytest.raises(RuntimeError, match="the reward pool ended by itself, exit status -9"):
        run_feeding(replace(SPEC, duration_s=600), cpu, stopping_context(killed))
    assert not pools()


def test_a_lack_of_memory_is_reported_and_leaves_nothing(faulty_cpu, context):
    def fail(call, out):
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")

    device = faulty_cpu(fail)
    with pytest.raises(MemoryError, match="generation with"):
        run_feeding(SPEC, device, context)
    (event,) = context.events("oom")
    assert not event.data["recovered"]
    assert device.memory().allocated_mib == 0
    assert not pools()
