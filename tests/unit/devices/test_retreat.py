from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.devices.retreat import CPU, EMERGENCY, Attempt, learned_size, next_attempt
from rigproof.profiles.planning.operands import operands_mib
from rigproof.profiles.planning.plan import MemoryPlan

PLAN = MemoryPlan(enabled=True, least_size=256, emergency_size=128, cpu_fallback=True)


def course(plan, target_mib, size, precision="bf16", *, in_round=False, fallback=True):
    """Every attempt of a worker on which each fails."""
    attempts = [Attempt(target_mib, size)]
    while (
        now := next_attempt(plan, attempts[-1], size, precision, in_round=in_round, fallback=fallback)
    ) is not None:
        attempts.append(now)
        assert len(attempts) < 10_000
    return attempts


def test_each_failure_costs_a_tenth_of_the_target_down_to_the_last_resort():
    targets = [one.target_mib for one in course(PLAN, 1740.8, 2048) if one.size == 2048]
    for before, after in pairwise(targets):
        assert after == pytest.approx(max(100, before * 0.9))
    assert targets[-1] == 100


def test_after_the_last_resort_come_smaller_matrices_then_tiny_ones_then_the_cpu():
    attempts = course(PLAN, 200, 1024)
    later = [(one.size, one.part) for one in attempts if one.target_mib < 100]
    assert later == [(712, ""), (496, ""), (344, ""), (256, ""), (128, EMERGENCY), (256, CPU)]
    assert [one.target_mib for one in attempts if one.size == 712] == [operands_mib(712, "bf16")]


def test_the_cpu_is_asked_only_where_the_profile_says_so():
    assert course(PLAN, 200, 1024, fallback=False)[-1].part == EMERGENCY


def test_a_target_that_holds_no_pair_makes_matrices_smaller_at_once():
    now = next_attempt(PLAN, Attempt(400, 8192), 8192, "bf16", in_round=False, fallback=False)
    assert (now.target_mib, now.size) == (360, 5728)  # three of 8192 take 384 MiB


def test_a_failed_round_costs_a_tenth_and_three_tenths_of_the_size():
    now = next_attempt(PLAN, Attempt(1000, 4096), 4096, "bf16", in_round=True, fallback=False)
    assert (now.target_mib, now.size) == (900, 2864)
    again = next_attempt(PLAN, now, 4096, "bf16", in_round=True, fallback=False)
    assert (again.target_mib, again.size) == (810, 2000)


def test_a_failed_round_of_a_small_worker_keeps_its_target():
    now = next_attempt(PLAN, Attempt(50, 1024), 1024, "bf16", in_round=True, fallback=False)
    assert (now.target_mib, now.size) == (50, 712)


@given(
    planned=st.integers(8, 2048).map(lambda n: 8 * n),
    failures=st.integers(0, 60),
    share=st.floats(0.05, 0.99),
)
def test_a_learned_size_is_the_guide_s_formula_as_a_multiple_of_eight(planned, failures, share):
    size = learned_size(replace(PLAN, size_share=share), planned, failures)
    assert size % 8 == 0
    assert min(256, planned) <= size <= planned
    assert size <= max(256, planned * share**failures)
    assert size > planned * share**failures - 8 or size == planned


@given(
    target_mib=st.floats(0.5, 1e5),
    size=st.integers(8, 1024).map(lambda n: 8 * n),
    precision=st.sampled_from(["fp32", "bf16"]),
    retry_share=st.floats(0.3, 0.97),
    size_share=st.floats(0.3, 0.97),
    least=st.sampled_from([64, 256, 1024]),
    in_round=st.booleans(),
)
def test_every_course_ends_and_always_asks_for_less(
    target_mib, size, precision, retry_share, size_share, least, in_round
):
    plan = replace(PLAN, retry_share=retry_share, size_share=size_share, least_size=least)
    attempts = course(plan, target_mib, size, precision, in_round=in_round)
    assert [one.part for one in attempts[-2:]] == [EMERGENCY, CPU]
    pools = attempts[:-2]
    for before, after in pairwise(pools):
        assert (after.target_mib, after.size) != (before.target_mib, before.size)
        assert after.target_mib <= max(before.target_mib, operands_mib(after.size, precision))
        assert after.size <= before.size
        assert operands_mib(after.size, precision) <= after.target_mib
