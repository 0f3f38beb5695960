"""Which stage is attempted once more, and what both attempts say together."""

import pytest

from rigproof.judging.attempts import another_attempt
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import is_marginal, of_attempts
from rigproof.records.verdict import Outcome, Verdict
from support.fault_changes import GPU, OTHER
from support.rig_profile import CANNED, LIMITS, stage_changes

RATE, CLOCK = CATALOGUE["throughput.sustained"], CATALOGUE["clock.ratio"]
SHARE = 0.03
STAGE = "sustained"
RATES = (
    "throughput.gemm_", "throughput.sustained", "throughput.combined", "throughput.peer_outlier",
    "precision.speedup", "scaling.sharing", "training.step",
)  # fmt: skip


def rate(measured, limit=100.0, outcome=None):
    outcome = outcome or (Outcome.PASS if measured >= limit else Outcome.FAIL)
    remedy = "cool it" if outcome is Outcome.FAIL else ""
    return Verdict("throughput.sustained", "pc1/gpu0", outcome, "TFLOP/s", measured, limit, remedy=remedy)


def only(outcome, detail=""):
    return Verdict("clock.ratio", "pc1/gpu0", outcome, detail=detail)


@pytest.mark.parametrize(
    ("criterion", "verdict", "share", "marginal"),
    [
        (RATE, rate(97.01), SHARE, True),
        (RATE, rate(97.0), SHARE, False),
        (RATE, rate(100.0), SHARE, False),
        (RATE, rate(99.0), None, False),
        (RATE, rate(99.0), 0.0, False),
        (RATE, rate(99.0, outcome=Outcome.WARN), SHARE, False),
        (RATE, rate(100.5, outcome=Outcome.FAIL), SHARE, False),  # it failed for something else
        (RATE, rate(float("nan"), outcome=Outcome.FAIL), SHARE, False),
        (RATE, only(Outcome.FAIL), SHARE, False),
        (CLOCK, rate(99.0), SHARE, False),
    ],
)
def test_only_a_rate_that_misses_its_limit_by_less_than_the_share_is_marginal(
    criterion, verdict, share, marginal
):
    assert is_marginal(criterion, verdict, share) is marginal


def test_a_rate_that_is_good_only_the_second_time_warns_and_says_both():
    verdict = of_attempts(RATE, [rate(98.2), rate(101.0)], SHARE)
    assert (verdict.outcome, verdict.measured, verdict.remedy) == (Outcome.WARN, 101.0, "cool it")
    assert verdict.detail == "measured twice, the first time 98.20 TFLOP/s"


def test_a_rate_that_is_good_only_the_first_time_warns_too():
    verdict = of_attempts(RATE, [rate(101.0), rate(98.2)], SHARE)
    assert (verdict.outcome, verdict.measured) == (Outcome.WARN, 101.0)
    assert verdict.detail == "measured twice, the second time 98.20 TFLOP/s"


def test_a_rate_that_fails_twice_fails_and_says_both():
    verdict = of_attempts(RATE, [rate(98.2), rate(99.1)], SHARE)
    assert (verdict.outcome, verdict.measured) == (Outcome.FAIL, 99.1)
    assert verdict.detail == "measured twice, the first time 98.20 TFLOP/s"


@pytest.mark.parametrize(("first", "last"), [(60.0, 101.0), (101.0, 60.0)])
def test_a_rate_that_was_far_off_once_fails_whatever_the_other_time_says(first, last):
    verdict = of_attempts(RATE, [rate(first), rate(last)], SHARE)
    assert (verdict.outcome, verdict.measured) == (Outcome.FAIL, 60.0)
    assert "101.0 TFLOP/s" in verdict.detail


@pytest.mark.parametrize("other", [Outcome.NOT_MEASURED, Outcome.NO_LIMIT, Outcome.NOT_APPLICABLE])
def test_only_a_good_figure_makes_good_a_marginal_one(other):
    missing = Verdict("throughput.sustained", "pc1/gpu0", other)
    assert of_attempts(RATE, [rate(98.2), missing], SHARE).outcome is Outcome.FAIL
    assert of_attempts(RATE, [missing, rate(98.2)], SHARE).outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("one", "other", "worse"),
    [
        (Outcome.FAIL, Outcome.PASS, Outcome.FAIL),
        (Outcome.FAIL, Outcome.NOT_MEASURED, Outcome.FAIL),
        (Outcome.NOT_MEASURED, Outcome.WARN, Outcome.NOT_MEASURED),
        (Outcome.WARN, Outcome.PASS, Outcome.WARN),
        (Outcome.NO_LIMIT, Outcome.PASS, Outcome.NO_LIMIT),
        (Outcome.PASS, Outcome.NOT_APPLICABLE, Outcome.PASS),
    ],
)
def test_whatever_is_no_rate_is_judged_by_the_worse_attempt(one, other, worse):
    for pair in ((one, other), (other, one)):
        assert of_attempts(CLOCK, [*map(only, pair)], SHARE).outcome is worse


def test_of_two_that_are_as_good_the_last_is_reported():
    assert of_attempts(CLOCK, [only(Outcome.PASS, "a"), only(Outcome.PASS, "b")], SHARE).detail == "b"


def test_the_rates_are_these():
    named = {one.name for one in CATALOGUE.values() if one.rate}
    general = {name for name in named if CANNED.issuperset(CATALOGUE[name].stages)}
    assert general == {one for one in CATALOGUE if one.startswith(RATES)}
    assert all(CATALOGUE[one].stages for one in named)


@pytest.fixture
def marginal(bench):
    """Both cards did 491.7 TFLOP/s, where 495 are the floor of one."""
    bench.rig(
        limits=LIMITS | {"marginal_share": 0.03}, **stage_changes("sustained", combined_floor_tflops=None)
    )
    for subject in (GPU, OTHER):
        bench.slow(subject, 0.745)
    return bench


def reason_of(bench):
    return another_attempt(bench.recording, bench.loaded, STAGE)


def test_one_card_that_misses_its_floor_by_little_is_named_with_both_figures(marginal):
    assert reason_of(marginal) == (
        f"sustained is measured once more: {OTHER} throughput.sustained: 492 TFLOP/s, limit ≥ 495 TFLOP/s"
    )


@pytest.mark.parametrize("change", ["absent", "partial", "repeated", "no share"])
def test_a_stage_that_did_not_run_or_not_to_its_end_or_twice_before_gets_none(marginal, change):
    own = marginal.recording.stages[STAGE]
    if change == "absent":
        del marginal.recording.stages[STAGE]
    elif change == "partial":
        marginal.stage(STAGE, status="partial")
    elif change == "no share":
        marginal.limits(marginal_share=0.0)
    else:
        marginal.recording.earlier_attempts[STAGE] = (own,)
    assert reason_of(marginal) == ""


def test_of_several_the_first_is_named_and_the_others_are_counted(marginal):
    marginal.slow(GPU, 0.9)  # 442.5, where 445.5 are its floor
    marginal.slow(OTHER, 0.99)
    assert reason_of(marginal).endswith("(and 1 more)")


@pytest.mark.parametrize(("after_s", "again"), [(-0.1, True), (0.0, False), (5.0, False)])
def test_what_went_wrong_from_the_stage_s_begin_on_leaves_no_another_attempt(marginal, after_s, again):
    begun_s = marginal.recording.stages[STAGE].start_s
    marginal.event("xid", GPU, "Xid 43", begun_s + after_s, xid=43)
    assert bool(reason_of(marginal)) is again
