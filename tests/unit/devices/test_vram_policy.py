import gc
import resource

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rigproof.devices.cpu import OTHERS_MIB, CpuDevice
from rigproof.devices.reporting import Reporter
from rigproof.devices.vram_policy import VramPolicy
from rigproof.profiles.planning.plan import MemoryPlan


@pytest.fixture
def policy_of(cpu, context):
    """Makes a policy of these keys on the CPU, or on the device named."""

    def make(device=cpu, **keys):
        plan = MemoryPlan(enabled=True, **keys)
        return VramPolicy(plan, device, Reporter(context, "sustained"))

    return make


def changes_of(context, technique):
    """What the events of this technique state: before, after, unit."""
    events = [event.data for event in context.events("memory_policy")]
    return [(one["before"], one["after"], one["unit"]) for one in events if one["technique"] == technique]


def fail(policy, times):
    for _ in range(times):
        policy.failed("12 GiB wanted", 12288, recovered=True)


def test_each_decision_says_what_when_why_and_how_much(context, policy_of):
    policy_of().decided("target", 1740.8, 1566.7, "MiB", "less after failure 1")
    (event,) = context.events("memory_policy")
    assert event.message == "target: 1740.8 -> 1566.7 MiB: less after failure 1"
    assert event.data == {
        "technique": "target",
        "before": 1740.8,
        "after": 1566.7,
        "unit": "MiB",
        "reason": "less after failure 1",
    }
    assert (event.worker, event.stage) == (context.worker, "sustained")
    assert event.t_s > 0


# Memory fraction


def allocated(allocate, device):
    """Whether there is so much; it is given back at once."""
    try:
        allocate()
    except (RuntimeError, MemoryError) as error:
        if device.is_out_of_memory(error):
            return False
        raise
    return True


def matrix_of(device, mib):
    return lambda: device.empty(int((mib * 2**20 / 4) ** 0.5), "fp32")


def bytes_of(mib):
    return lambda: torch.empty(int(mib * 2**20), dtype=torch.uint8)


def test_the_cap_fails_allocations_and_is_lifted_at_the_end(cpu, context, policy_of):
    before = resource.getrlimit(resource.RLIMIT_DATA)
    cpu.empty_cache()  # what other tests left in it would be room once it is emptied below
    policy = policy_of(cap_mib=200.0)
    policy.begin()
    try:
        assert allocated(matrix_of(cpu, 199), cpu)
        assert not allocated(matrix_of(cpu, 201), cpu)
        kept = cpu.normal(4096, "fp32", seed=0)  # 64 MiB, and 68 MiB of random data that it is cut from
        assert allocated(matrix_of(cpu, 67), cpu)
        assert not allocated(matrix_of(cpu, 69), cpu)
        cpu.empty_cache()
        assert allocated(matrix_of(cpu, 135), cpu)
        assert not allocated(matrix_of(cpu, 137), cpu)
        del kept
        assert allocated(matrix_of(cpu, 199), cpu)
    finally:
        policy.end()
    assert allocated(matrix_of(cpu, 201), cpu)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    total_mib = cpu.memory().device_total_mib
    assert changes_of(context, "memory_fraction") == [(total_mib, 200.0, "MiB")]


def test_under_the_cap_the_process_has_a_limit_of_its_own_with_room_for_ray(cpu, policy_of):
    policy = policy_of(cap_mib=200.0)
    policy.begin()
    try:
        assert allocated(bytes_of(200 + OTHERS_MIB / 2), cpu)
        assert not allocated(bytes_of(200 + OTHERS_MIB * 2), cpu)
    finally:
        policy.end()
    assert allocated(bytes_of(200 + OTHERS_MIB * 2), cpu)


def test_the_cap_holds_without_a_policy_too_and_nothing_else_is_left_of_it(cpu, context):
    plan = MemoryPlan(enabled=False, cap_mib=200.0, cleanup_rounds=1)
    policy = VramPolicy(plan, cpu, Reporter(context, "sustained"))
    policy.begin()
    try:
        assert not allocated(matrix_of(cpu, 300), cpu)
        policy.failed("300 MiB wanted", 300, recovered=True)
        assert (policy.batch(64), policy.size(4096)) == (64, 4096)
        assert list(policy.steps(1000)) == [1000]
        policy.after_round()
    finally:
        policy.end()
    assert context.events("oom")[0].data["recovered"] is False
    techniques = [event.data["technique"] for event in context.events("memory_policy")]
    assert techniques == ["policy", "memory_fraction", "memory_monitoring"]
    assert changes_of(context, "policy") == [("on", "off", "")]


def test_a_limit_that_the_process_had_before_is_not_widened(cpu):
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    lower = 2**42
    resource.setrlimit(resource.RLIMIT_DATA, (lower, hard))
    try:
        assert not cpu.limit_memory(2**23)
        assert resource.getrlimit(resource.RLIMIT_DATA)[0] == lower
        assert cpu.limit_memory(2**10)
        assert not cpu.limit_memory(None)
        assert resource.getrlimit(resource.RLIMIT_DATA)[0] == lower
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


# Progressive allocation


def test_steps_go_from_a_fifth_to_all_of_the_target_and_say_what_is_held(cpu, context, policy_of):
    kept, goals = [], []
    for goal_mib in policy_of(start_share=0.2, step_share=0.2).steps(5.0):
        goals.append(goal_mib)
        while len(kept) < goal_mib:
            kept.append(cpu.normal(512, "fp32", seed=len(kept)))  # 1 MiB
    assert goals == pytest.approx([1, 2, 3, 4, 5])
    before = cpu.memory().allocated_mib - 5
    steps = [(before + n, before + n + 1, "MiB") for n in range(5)]
    assert changes_of(context, "progressive_allocation") == steps
    kept.clear()
    cpu.empty_cache()


@pytest.mark.parametrize(
    ("start", "step", "held_mib", "expected"),
    [
        (0.2, 0.2, 0, [200, 400, 600, 800, 1000]),
        (0.2, 0.2, 600, [800, 1000]),
        (0.2, 0.2, 1000, [1000]),
        (0.5, 1.0, 0, [500, 1000]),
        (1.0, 1.0, 0, [1000]),
        (0.1, 0.3, 0, [100, 400, 700, 1000]),
    ],
)
def test_steps_begin_above_what_is_held_and_end_at_the_target(
    policy_of, context, start, step, held_mib, expected
):
    steps = policy_of(start_share=start, step_share=step).steps(1000, held_mib)
    assert list(steps) == pytest.approx(expected)
    assert context.events("memory_policy") == []  # nothing was taken, so nothing changed


# What is learned from failures


@given(
    planned=st.integers(1, 4096),
    failures=st.integers(0, 9),
    step=st.integers(1, 600),
    least=st.integers(1, 600),
)
def test_a_batch_is_the_guide_s_formula_and_never_more_than_planned(planned, failures, step, least):
    policy = VramPolicy(MemoryPlan(enabled=True, batch_step=step, least_batch=least), *no_device())
    policy.failures = failures
    batch = policy.batch(planned)
    assert batch == min(planned, max(least, planned - failures * step))
    assert batch >= 1


def no_device():
    class Nobody:
        def event(self, *arguments):
            pass

    return None, Nobody()


def test_the_guide_s_batch_of_128_loses_16_by_each_failure_down_to_32(context, policy_of):
    policy = policy_of(batch_step=16, least_batch=32)
    batches = []
    for _ in range(8):
        batches.append(policy.batch(128))
        fail(policy, 1)
    assert batches == [128, 112, 96, 80, 64, 48, 32, 32]
    changes = changes_of(context, "batch_size")  # recorded where it changes, and only there
    assert changes == [(n, n - 16, "examples") for n in (128, 112, 96, 80, 64, 48)]


def test_matrices_lose_three_tenths_by_each_failure_down_to_256(context, policy_of):
    policy = policy_of(size_share=0.7, least_size=256)
    sizes = []
    for _ in range(6):
        sizes.append(policy.size(1200))
        policy.size(1200)
        fail(policy, 1)
    assert sizes == [1200, 840, 584, 408, 288, 256]
    assert [after for _, after, _ in changes_of(context, "matrix_size")] == sizes[1:]


# Cleanup and monitoring


def test_a_failure_gives_back_what_nobody_uses(cpu, policy_of):
    cpu.normal(3000, "fp32", seed=1)
    assert cpu.cached_mib() > 32
    fail(policy_of(), 1)
    assert cpu.cached_mib() == 0


class Cycle:
    """Garbage that only a collection finds."""

    def __init__(self, matrix):
        self.matrix, self.me = matrix, self


def test_cleanups_come_every_few_rounds_and_give_real_memory_back(cpu, context, policy_of):
    policy = policy_of(cleanup_rounds=5)
    policy.begin()
    try:
        gc.disable()  # so that nothing else collects
        Cycle(cpu.normal(3000, "fp32", seed=1))
        held = cpu.memory().allocated_mib
        for _ in range(4):
            policy.after_round()
        assert cpu.memory().allocated_mib == held
        assert cpu.cached_mib() > 32
        policy.after_round()
        assert cpu.memory().allocated_mib == held - 3000 * 3000 * 4 / 2**20
        assert cpu.cached_mib() == 0
        for _ in range(5):
            policy.after_round()
        Cycle(cpu.normal(3000, "fp32", seed=1))
        policy.end()
        assert (cpu.memory().allocated_mib, cpu.cached_mib()) == (held - 3000 * 3000 * 4 / 2**20, 0)
    finally:
        gc.enable()
    (setting, (_, given_back_mib, unit)) = changes_of(context, "periodic_cleanup")
    assert setting == (None, 5, "rounds")
    assert unit == "MiB"
    assert given_back_mib > 30
    last = [event for event in context.events("memory_policy") if event.data["before"] == 0.0][-1]
    assert "in 1 cleanups; 1 found too little" in last.message


def test_a_cleanup_with_little_to_give_back_leaves_the_device_alone(context):
    class Busy(CpuDevice):
        def empty_cache(self):
            raise AssertionError("this waits for the device")

    policy = VramPolicy(
        MemoryPlan(enabled=True, cleanup_rounds=1), Busy(cpu_threads=1), Reporter(context, "sustained")
    )
    for _ in range(3):
        policy.after_round()


def test_objects_that_stay_are_not_looked_at_by_each_cleanup_nor_in_later_stages(policy_of):
    gc.unfreeze()
    policy = policy_of(cleanup_rounds=1)
    policy.begin()
    try:
        assert gc.get_freeze_count() > 10_000
    finally:
        policy.end()
    assert gc.get_freeze_count() > 10_000


@pytest.mark.parametrize(("monitor_s", "readings"), [(0.05, 10), (0.5, 1)])
def test_the_memory_is_read_as_often_as_the_profile_says(context, policy_of, monitor_s, readings):
    policy = policy_of(monitor_s=monitor_s)
    policy.begin()
    try:
        while context.now_s() < 0.5:  # 5 ms by each look at the clock
            policy.after_round()
    finally:
        policy.end()
    assert len(context.memory) in (readings - 1, readings, readings + 1)
    assert changes_of(context, "memory_monitoring") == [(None, monitor_s, "s")]


# Settings of a GPU

ASKED = "expandable_segments:True,large_segment_size_mb:64"


class Card(CpuDevice):
    """The CPU in the guise of a GPU, so that a GPU's settings are reported."""

    kind = "cuda"
    cuda_version = "13.0"

    def allocator_settings(self):
        return {"expandable_segments": True}


@pytest.fixture
def card():
    device = Card(cpu_threads=1)
    device.cuda_version = "13.0"
    return device


@pytest.mark.parametrize(
    ("environ", "after", "reason"),
    [
        ({"PYTORCH_ALLOC_CONF": ASKED}, ASKED, "as set in the profile"),
        ({"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}, "backend:cudaMallocAsync", "by the user"),
        ({}, "", "torch's defaults"),
    ],
)
def test_the_allocator_s_settings_are_reported_as_they_are_in_force(
    monkeypatch, context, policy_of, card, environ, after, reason
):
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    policy = policy_of(card, expandable_segments=True)
    policy.begin()
    policy.end()
    (event,) = [e for e in context.events("memory_policy") if e.data["technique"] == "allocator"]
    assert (event.data["before"], event.data["after"]) == (ASKED, after)
    assert reason in event.message
    assert "torch says expandable_segments=True" in event.message


def test_segments_that_do_not_grow_although_they_should_are_reported(monkeypatch, context, policy_of, card):
    monkeypatch.setattr(card, "allocator_settings", lambda: {"expandable_segments": False})
    policy = policy_of(card, expandable_segments=True)
    policy.begin()
    policy.end()
    (event,) = [e for e in context.events("memory_policy") if e.data["technique"] == "allocator"]
    assert "expandable segments are not in force here" in event.message


def test_variables_that_do_nothing_are_named_in_one_event(monkeypatch, context, policy_of, card):
    monkeypatch.setenv("TORCH_USE_CUDA_DSA", "1")
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    policy = policy_of(card)
    policy.begin()
    policy.end()
    (event,) = [e for e in context.events("memory_policy") if e.data["technique"] == "environment"]
    assert event.data["after"] == "TORCH_USE_CUDA_DSA=1, CUDA_LAUNCH_BLOCKING=1"
    assert "TORCH_USE_CUDA_DSA=1: no effect" in event.message
    assert "CUDA_LAUNCH_BLOCKING=1: slows" in event.message


def test_the_cpu_as_device_hears_nothing_of_cuda_s_settings(monkeypatch, context, policy_of):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    policy = policy_of(expandable_segments=True)
    policy.begin()
    policy.end()
    assert changes_of(context, "allocator") == changes_of(context, "environment") == []


@pytest.mark.parametrize("half", ["bf16", "fp32"])
@pytest.mark.parametrize("mixed", [True, False])
def test_mixed_precision_is_the_load_s_unless_the_profile_switches_it_off(context, policy_of, mixed, half):
    device = CpuDevice(cpu_threads=1)
    device.half = half
    precision = policy_of(device, mixed_precision=mixed).precision()
    assert precision == (half if mixed else "fp32")
    assert changes_of(context, "mixed_precision") == [("fp32", half, "") if mixed else (half, "fp32", "")]


def test_16_bit_operands_take_half_of_the_real_allocator_s_memory(cpu):
    before = cpu.memory().allocated_mib
    kept = [cpu.normal(512, "bf16", seed=1)]
    half_mib = cpu.memory().allocated_mib - before
    kept.append(cpu.normal(512, "fp32", seed=1))
    assert cpu.memory().allocated_mib - before - half_mib == 2 * half_mib == 1
