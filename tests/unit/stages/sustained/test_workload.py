from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from rigproof.devices.verification import placed
from rigproof.profiles.planning.plan import MemoryPlan
from rigproof.stages.sustained.stage import SustainedSpec
from rigproof.stages.sustained.workload import run_sustained
from support.devices import RecordingContext

SPEC = SustainedSpec("sustained", size=128, vram_mib=1.0, duration_s=0.6, settle_s=10, round_s=0.02)


@pytest.fixture(scope="module")
def done(cpu):
    """A whole run, to be looked at."""
    context = RecordingContext()
    run_sustained(SPEC, cpu, context)
    assert cpu.memory().allocated_mib == 0
    return context


def test_the_memory_that_was_asked_for_is_filled_and_reported(cpu, done):
    (event,) = done.events("allocation")
    each_mib = 128 * 128 * (4 if cpu.half == "fp32" else 2) / 2**20
    assert event.data["matrices"] == round(1 / each_mib) - 1
    assert event.data["allocated_mib"] == pytest.approx(1.0)
    assert event.data["target_mib"] == 1.0


def test_rounds_settle_for_a_third_at_most_and_every_result_is_verified(cpu, done):
    measured = [round_ for round_ in done.rounds if round_.phase == "measure"]
    assert measured
    assert {round_.label("precision") for round_ in done.rounds} == {cpu.half}
    assert all(round_.verified for round_ in done.rounds)
    assert all(round_.phase == "warmup" for round_ in done.rounds if round_.t_s < 0.2)


def test_memory_is_read_while_it_works_and_nothing_is_left(cpu, done):
    assert max(reading.allocated_mib for reading in done.memory) > 0
    assert cpu.memory().allocated_mib == 0


def test_a_bit_flipped_in_any_product_of_a_round_is_caught(faulty_cpu, context):
    device = faulty_cpu(lambda call, out: out.view(torch.int16)[3, 2].bitwise_xor_(4) if call == 45 else None)
    run_sustained(SPEC, device, context)
    wrong = [round_ for round_ in context.rounds if not round_.verified]
    assert len(wrong) == 1
    (event,) = context.events("wrong_result")
    assert event.data["expected"] != event.data["got"]


def test_a_device_that_is_always_wrong_is_held_against_exact_arithmetic(faulty_cpu, context):
    def damage(call, out):
        out.view(torch.int32 if out.element_size() == 4 else torch.int16)[5:7, 32:64].bitwise_xor_(0x11)

    device = faulty_cpu(damage)
    run_sustained(SPEC, device, context)
    assert context.rounds
    assert not any(round_.verified for round_ in context.rounds)
    event = context.events("wrong_result")[0]
    bits = event.data["bits"]
    wanted = {"golden": True, "repeated": 3, "again": 3, "elements": 64, "rows": [5, 6], "columns": [32, 63]}
    assert event.data.items() >= wanted.items()
    assert int(bits, 16) == 0x11
    assert event.message.endswith("is not exact")
    assert placed(event.data) == f"64 elements (rows 5–6, columns 32–63, bits {bits}), again in 3 of 3"


def test_stop_is_heard_while_filling_and_while_working(cpu, stopping_context):
    for wanted in (1, 40):
        context = stopping_context(lambda context, wanted=wanted: len(context.rounds) >= wanted)
        run_sustained(replace(SPEC, vram_mib=8, duration_s=600, round_s=0.001), cpu, context)
        assert wanted <= len(context.rounds) <= wanted + cpu.queue_depth
        assert cpu.memory().allocated_mib == 0


def test_too_little_memory_for_a_pair_is_refused(cpu, context):
    with pytest.raises(ValueError, match="give at least"):
        run_sustained(replace(SPEC, vram_mib=0.01), cpu, context)


def out_of_memory():
    raise RuntimeError(
        "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 byte"
    )


def test_without_a_policy_the_first_want_of_memory_ends_the_task(faulty_cpu, context):
    device = faulty_cpu(lambda call, out: out_of_memory() if call == 40 else None)
    with pytest.raises(MemoryError, match="no room for operands of size 128"):
        run_sustained(SPEC, device, context)
    assert [event.data["recovered"] for event in context.events("oom")] == [False]
    assert device.memory().allocated_mib == 0


# 0.5 MiB are as little as torch's checked block and marks ask for besides; every size has its pair in it.
POLICY = MemoryPlan(enabled=True, last_resort_mib=0.5, least_size=64, emergency_size=32)


def test_want_of_memory_inside_a_round_makes_a_smaller_pool_of_smaller_matrices(faulty_cpu, stopping_context):
    device = faulty_cpu(lambda call, out: out_of_memory() if call in (200, 500) else None)
    context = stopping_context(
        lambda context: bool(context.rounds) and context.rounds[-1].label("size") == 64
    )
    run_sustained(replace(SPEC, duration_s=600, memory=POLICY), device, context)
    events = context.events("oom")
    assert [event.data["recovered"] for event in events] == [True, True]
    assert events[0].data["requested_mib"] > events[1].data["requested_mib"]
    assert context.rounds[-1].t_s > events[-1].t_s
    assert all(round_.verified for round_ in context.rounds)
    assert list(dict.fromkeys(round_.label("size") for round_ in context.rounds)) == [128, 88, 64]
    assert decided(context, "target") == [(1.0, 0.9), (0.9, pytest.approx(0.81))]
    assert decided(context, "matrix_size") == [(128, 88), (88, 64)]
    assert len(context.events("allocation")) == 1  # a pool that is made again is no task of its own
    assert device.memory().allocated_mib == 0


def decided(context, technique):
    events = [event.data for event in context.events("memory_policy")]
    return [(one["before"], one["after"]) for one in events if one["technique"] == technique]


def test_a_pool_is_filled_in_steps_and_reported_as_one_allocation(cpu, context):
    plan = replace(POLICY, start_share=0.2, step_share=0.2)
    run_sustained(replace(SPEC, vram_mib=4.0, memory=plan), cpu, context)
    held = [after for _, after in decided(context, "progressive_allocation")]
    assert held == pytest.approx([0.8, 1.6, 2.4, 3.2, 4.0], abs=0.1)
    assert len(context.events("allocation")) == 1


def test_fp32_is_the_load_s_precision_without_mixed_precision(cpu, context):
    run_sustained(replace(SPEC, memory=replace(POLICY, mixed_precision=False)), cpu, context)
    assert {round_.label("precision") for round_ in context.rounds} == {"fp32"}


def test_nothing_left_to_try_fails_the_task(faulty_cpu, context):
    device = faulty_cpu(lambda call, out: out_of_memory())
    with pytest.raises(MemoryError, match="no room for operands of size 32"):
        run_sustained(replace(SPEC, memory=replace(POLICY, cpu_fallback=True)), device, context)
    recovered = [event.data["recovered"] for event in context.events("oom")]
    assert recovered == [True] * (len(recovered) - 1) + [False]
    assert decided(context, "emergency") == [(64, 32)]
    assert decided(context, "cpu_fallback") == []  # the CPU is no fallback for itself
    assert device.memory().allocated_mib == 0


@pytest.fixture
def full_card(faulty_cpu):
    """A card that is full: each of its allocations is one that the real allocator refuses."""

    def fail(call, out):
        torch.empty(2**50)

    device = faulty_cpu(fail)
    device.kind = "cuda"
    return device


def test_the_cpu_goes_on_where_the_card_is_full_and_each_of_its_rounds_says_so(full_card, context):
    run_sustained(replace(SPEC, memory=replace(POLICY, cpu_fallback=True)), full_card, context)
    assert decided(context, "cpu_fallback") == [("cuda", "cpu")]
    assert context.rounds
    assert {(round_.device, round_.label("part")) for round_ in context.rounds} == {("cpu", "cpu")}
    assert any(round_.phase == "measure" for round_ in context.rounds)
    assert all(event.data["recovered"] for event in context.events("oom"))
    assert context.events("allocation") == []  # nothing was filled


def test_a_full_card_fails_the_task_where_the_cpu_is_not_to_help(full_card, context):
    with pytest.raises(MemoryError):
        run_sustained(replace(SPEC, memory=POLICY), full_card, context)
    assert context.rounds == []


# Real want of memory, in a process whose data cannot grow: 160 MiB in fp32 matrices of 1 MiB are planned

LITTLE = MemoryPlan(enabled=True, mixed_precision=False, least_size=256, emergency_size=128)
SPEC_160 = SustainedSpec("sustained", 512, 160.0, duration_s=0.6, settle_s=0.1, round_s=0.02)


def test_a_real_want_of_memory_is_reported_and_worked_around(run_alone):
    result = run_alone(replace(SPEC_160, memory=replace(LITTLE, cap_mib=130.0)))
    assert result.error is None
    ooms = result.events("oom")
    assert 2 <= len(ooms) <= 5
    assert all(event.data["recovered"] for event in ooms)
    targets = [160 * 0.9**n for n in range(len(ooms) + 1)]
    assert result.decided("target") == [pytest.approx(pair) for pair in pairwise(targets)]
    (allocation,) = result.events("allocation")
    assert targets[-1] - 1 <= allocation.data["allocated_mib"] <= min(130, targets[-1])
    assert allocation.data["target_mib"] == 160
    assert {round_.label("size") for round_ in result.rounds} == {512}
    assert all(round_.verified for round_ in result.rounds)
    assert result.left_mib == 0
    assert result.limit_after == result.limit_before


def test_where_even_the_last_resort_does_not_fit_smaller_matrices_do(run_alone):
    plan = replace(LITTLE, cap_mib=30.0, last_resort_mib=100.0, least_size=512)
    spec = replace(SPEC_160, size=1024, memory=plan)
    result = run_alone(spec)
    assert result.error is None
    assert min(after for _, after in result.decided("target")) < 30
    assert result.decided("matrix_size")[0] == (1024, 712)
    assert {round_.label("part") for round_ in result.rounds} == {None}
    assert result.rounds[-1].label("size") == 712
    assert all(round_.verified for round_ in result.rounds)


def test_tiny_operations_go_on_where_no_pair_fits(run_alone):
    plan = replace(LITTLE, cap_mib=30.0, last_resort_mib=100.0, least_size=2048)
    result = run_alone(replace(SPEC_160, size=2048, memory=plan))
    assert result.error is None
    assert result.decided("emergency") == [(2048, 128)]
    tiny = [round_ for round_ in result.rounds if round_.label("part") == "emergency"]
    assert result.rounds[-1] in tiny
    assert {round_.label("size") for round_ in tiny} == {128}
    assert all(round_.verified for round_ in tiny)
    assert all(round_.device is None for round_ in tiny)
    assert result.events("allocation") == []


def test_the_same_pressure_without_a_policy_ends_the_task(run_alone):
    plan = replace(LITTLE, enabled=False, cap_mib=130.0)
    result = run_alone(replace(SPEC_160, memory=plan))
    assert "no room for operands of size 512" in result.error
    assert [event.data["recovered"] for event in result.events("oom")] == [False]
    assert result.left_mib == 0
    assert result.limit_after == result.limit_before
