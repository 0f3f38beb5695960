"""Which stage is worth measuring once more: one whose rates alone failed, and by little."""

import pytest

from rigproof.judging.second_chance import second_chance
from support.fault_changes import GPU, OTHER
from support.rig_profile import LIMITS, stage_changes

STAGE = "sustained"


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
    return second_chance(bench.recording, bench.loaded, STAGE)


def test_one_card_that_misses_its_floor_by_little_is_named_with_both_figures(marginal):
    assert reason_of(marginal) == (
        f"sustained is measured once more: {OTHER} throughput.sustained: 492 TFLOP/s, limit ≥ 495 TFLOP/s"
    )


@pytest.mark.parametrize("change", ["absent", "partial", "repeated"])
def test_a_stage_that_did_not_run_or_not_to_its_end_or_twice_before_gets_none(marginal, change):
    own = marginal.recording.stages[STAGE]
    if change == "absent":
        del marginal.recording.stages[STAGE]
    elif change == "partial":
        marginal.stage(STAGE, status="partial")
    else:
        marginal.recording.first_attempts[STAGE] = own
    assert reason_of(marginal) == ""


def test_of_several_the_first_is_named_and_the_others_are_counted(marginal):
    marginal.slow(GPU, 0.9)  # 442.5, where 445.5 are its floor
    marginal.slow(OTHER, 0.99)
    assert reason_of(marginal).endswith("(and 1 more)")


@pytest.mark.parametrize(("after_s", "again"), [(-0.1, True), (0.0, False), (5.0, False)])
def test_what_went_wrong_from_the_stage_s_begin_on_leaves_no_second_chance(marginal, after_s, again):
    begun_s = marginal.recording.stages[STAGE].start_s
    marginal.event("xid", GPU, "Xid 43", begun_s + after_s, xid=43)
    assert bool(reason_of(marginal)) is again
