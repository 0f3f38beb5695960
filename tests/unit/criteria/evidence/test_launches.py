"""A rate for which the card waited for its host is not blamed on the card, and is no rate of the card's."""

from dataclasses import replace
from itertools import count

import pytest

from rigproof.criteria.evidence.launches import REMEDY
from rigproof.judging.judge import GOOD
from rigproof.records.verdict import Outcome
from support.peers import slow_peer, subject_of

GPU = "pc1/gpu0"
BF16, SUSTAINED, STABILITY = "throughput.gemm_bf16", "throughput.sustained", "throughput.stability"
FAIL, PASS, NOT_MEASURED = Outcome.FAIL, Outcome.PASS, Outcome.NOT_MEASURED
ONE_UNKNOWN = [{"name": "pc1", "gpus": [{"sku": "unknown", "workers": 2, "memory_gib": 141}]}]


def paced(bench, stage, those=lambda number: True, subject=GPU, from_s=0.0):
    """Say of those measured rounds of the stage that the card waited for its host, and of the others not."""
    numbers = count()
    bench.rounds(
        subject, stage, from_s, host_paced=lambda one: one.phase == "measure" and those(next(numbers))
    )


def slow(bench, stage, share=0.5, **where):
    bench.slow(GPU, share, stage, **where)
    paced(bench, stage, **where)


def test_a_rate_that_the_host_set_is_not_measured_and_says_what_to_do(bench):
    slow(bench, "gemm")
    verdict = bench.verdict(BF16, GPU)
    assert (verdict.outcome, verdict.remedy) == (NOT_MEASURED, REMEDY)
    assert verdict.detail == (
        "330, limit 495, while pc1/gpu0 waited for its host to launch products of size 1024, "
        "which took 0.0065 ms each: the host's pace, not the card's"
    )
    assert "gemm_size" in verdict.remedy


@pytest.mark.parametrize("said", [False, None])
def test_the_same_rate_is_the_card_s_if_it_did_not_wait_or_nobody_looked(bench, said):
    bench.slow(GPU, 0.5, "gemm")
    bench.rounds(GPU, "gemm", host_paced=said)
    assert bench.verdict(BF16, GPU).outcome is FAIL


def test_a_rate_that_is_good_enough_passes_whoever_set_it_and_is_not_kept_as_the_card_s(bench):
    assert [one.value for one in bench.verdict(BF16, GPU).rates] == [660.0]
    slow(bench, "gemm", 0.75)
    verdict = bench.verdict(BF16, GPU)
    assert (verdict.outcome, verdict.measured, verdict.rates) == (PASS, 495.0, ())


@pytest.mark.parametrize(("launch_ms", "outcome"), [(0.00651, NOT_MEASURED), (0.0065, FAIL), (None, FAIL)])
def test_a_host_that_takes_longer_than_its_limit_is_too_slow_itself(bench, launch_ms, outcome):
    slow(bench, "gemm")  # half of 660 TFLOP/s: 0.006508 ms for a product of size 1024
    bench.limits(launch_ms=launch_ms)
    assert bench.verdict(BF16, GPU).outcome is outcome


@pytest.mark.parametrize(("waited", "outcome"), [(3, NOT_MEASURED), (2, FAIL)])
def test_the_card_has_waited_in_half_of_the_measured_rounds_or_more(bench, waited, outcome):
    """Of each precision there are five."""
    bench.slow(GPU, 0.5, "gemm")
    paced(bench, "gemm", lambda number: number % 5 < waited)
    assert bench.verdict(BF16, GPU).outcome is outcome


@pytest.mark.parametrize(("waited", "outcome"), [(78, NOT_MEASURED), (77, FAIL)])
def test_exactly_half_are_enough(bench, waited, outcome):
    bench.slow(GPU, 0.5)
    paced(bench, "sustained", lambda number: number < waited)
    assert len([one for one in bench.recording.rounds.of(GPU) if one.host_paced is not None]) == 176
    assert bench.verdict(SUSTAINED, GPU).outcome is outcome


def test_other_precisions_and_stages_that_waited_are_no_excuse(bench):
    slow(bench, "gemm")
    bench.rounds(GPU, "gemm", 8.0, 10.5, host_paced=lambda one: one.label("precision") != "fp32")
    bench.slow(GPU, 0.5)
    assert bench.verdict("throughput.gemm_fp32", GPU).outcome is FAIL
    assert bench.verdict(BF16, GPU).outcome is NOT_MEASURED
    assert bench.verdict(SUSTAINED, GPU).outcome is FAIL


def test_a_card_with_wrong_results_or_a_lost_worker_has_no_such_excuse(bench):
    slow(bench, "gemm")
    bench.event("wrong_result", GPU, "bf16 product 0 is not exact", 20.0, stage="gemm")
    assert bench.verdict(BF16, GPU).outcome is FAIL
    assert bench.verdict("activity.gpu_active", GPU).outcome is FAIL


def test_no_figure_is_known_of_the_card_and_the_host_s_rate_is_no_baseline(bench):
    bench.rig(nodes=ONE_UNKNOWN)
    assert bench.verdict(BF16, GPU).detail.count("this is its baseline") == 1
    paced(bench, "gemm")
    verdict = bench.verdict(BF16, GPU)
    assert (verdict.outcome, verdict.rates) == (Outcome.NO_LIMIT, ())
    assert "its host set the pace, so this is no baseline" in verdict.detail


@pytest.mark.parametrize(("waits", "outcome"), [(True, NOT_MEASURED), (False, FAIL)])
def test_it_holds_for_a_card_s_sustained_rate_and_the_rig_s_sum(bench, waits, outcome):
    bench.slow(GPU, 0.5)
    if waits:
        paced(bench, "sustained")
    judged = {
        SUSTAINED: GPU,
        "throughput.combined": "rig",
    }
    assert {one: bench.verdict(one, subject).outcome for one, subject in judged.items()} == dict.fromkeys(
        judged, outcome
    )


@pytest.mark.parametrize(
    ("waits", "outcome"), [((), FAIL), ((0,), NOT_MEASURED), ((1,), FAIL), ((0, 1), NOT_MEASURED)]
)
def test_a_card_slower_than_its_peer_is_excused_if_it_waited_itself(bench, waits, outcome):
    """The peer is as fast as was measured at least, whether it waited or not."""
    slow_peer(bench, 2, 0.9)
    for number in waits:
        paced(bench, "sustained", subject=subject_of(number))
    assert bench.verdict("throughput.peer_outlier", subject_of(0)).outcome is outcome
    assert bench.verdict("throughput.peer_outlier", subject_of(1)).outcome is PASS


@pytest.mark.parametrize(("waits", "outcome"), [(True, NOT_MEASURED), (False, FAIL)])
def test_a_continuous_load_that_its_host_slowed_down_is_no_fall_of_the_card(bench, waits, outcome):
    bench.slow(GPU, 0.7, from_s=60.0)
    if waits:
        paced(bench, "sustained", from_s=60.0)
    assert bench.verdict(STABILITY, GPU).outcome is outcome


def test_what_its_host_slowed_down_before_does_not_excuse_a_later_fall(bench):
    bench.slow(GPU, 0.7, from_s=60.0)
    paced(bench, "sustained")
    bench.rounds(GPU, "sustained", 60.0, host_paced=False)
    assert bench.verdict(STABILITY, GPU).outcome is FAIL


@pytest.mark.parametrize(("waits", "outcome"), [(True, PASS), (False, FAIL)])
def test_products_of_gemm_that_the_host_slowed_down_are_no_fall_of_the_card(bench, waits, outcome):
    """Of bf16, from 21 to 25 s, the last quarter; the rate is good enough."""
    bench.slow(GPU, 0.5, "gemm", from_s=24.4)
    if waits:
        paced(bench, "gemm", from_s=24.4)
    verdict = bench.verdict(STABILITY, GPU)
    assert verdict.outcome is outcome
    assert "of gemm (precision bf16" in verdict.detail or outcome is PASS


def test_a_fall_of_the_card_shows_beside_a_deeper_one_of_its_host(bench):
    bench.slow(GPU, 0.3, "gemm", from_s=24.4)
    paced(bench, "gemm", from_s=24.4)
    bench.rounds(GPU, "gemm", 9.4, 10.1, work=lambda one: one.work * 0.5)
    verdict = bench.verdict(STABILITY, GPU)
    assert (verdict.outcome, verdict.measured) == (FAIL, pytest.approx(50))
    assert "of gemm (precision fp32" in verdict.detail


@pytest.mark.parametrize(("waits", "outcome"), [(True, NOT_MEASURED), (False, FAIL)])
def test_processes_that_share_a_card_may_wait_for_its_host_too(bench, waits, outcome):
    bench.slow(GPU, 0.5, "sharing", from_s=121.1)
    if waits:
        paced(bench, "sharing", from_s=121.1)
    assert bench.verdict("scaling.sharing", GPU).outcome is outcome


@pytest.mark.parametrize(("waits", "outcome"), [(True, NOT_MEASURED), (False, FAIL)])
def test_so_may_one_process_alone(bench, waits, outcome):
    bench.slow(GPU, 0.5, "sharing")
    if waits:
        paced(bench, "sharing")
    assert bench.verdict("scaling.sharing", GPU).outcome is outcome


def test_a_sound_card_that_waits_in_every_stage_is_judged_as_ever(bench):
    for stage in ("gemm", "sustained", "sharing"):
        paced(bench, stage)
    assert {one.outcome for one in bench.verdicts()} <= {*GOOD, Outcome.NO_LIMIT}


@pytest.mark.parametrize(("waits", "outcome"), [(True, NOT_MEASURED), (False, FAIL)])
def test_a_card_that_waits_draws_little_power(bench, waits, outcome):
    quarter = {name: lambda one: one.power_w / 4 for name in ("power_w", "power_average_w")}
    bench.samples(GPU, 26.0, 71.0, **quarter)
    if waits:
        paced(bench, "sustained")
    verdict = bench.verdict("activity.gpu_active", GPU)
    assert (verdict.outcome, verdict.remedy == REMEDY) == (outcome, waits)


def pause(bench, from_s, to_s):
    """It does nothing in that time."""
    bench.recording.rounds = [
        one for one in bench.recording.rounds if one.subject != GPU or not from_s < one.t_s < to_s
    ]


@pytest.mark.parametrize(("share", "outcome"), [(1.0, FAIL), (0.5, NOT_MEASURED)])
def test_a_card_that_did_nothing_for_a_while_did_not_wait_for_launches(bench, share, outcome):
    """Its rounds alone are good enough, or they are not."""
    pause(bench, 40.0, 56.0)
    slow(bench, "sustained", share)
    assert bench.verdict(SUSTAINED, GPU).outcome is outcome
    assert bench.verdict("throughput.combined", "rig").outcome is outcome
    assert bench.verdict("activity.gpu_active", GPU).outcome is FAIL


def test_a_pause_of_its_host_is_none_of_the_card(bench):
    """Its rate counts without that time, and so does the share of the time in which it worked."""
    pause(bench, 49.0, 55.0)
    bench.recording.host_samples = [
        replace(one, wakeup_delays_ms=(3900.0,)) if 54 <= one.t_s < 54.1 else one
        for one in bench.recording.host_samples
        if one.subject != "pc1" or not 50 < one.t_s < 54
    ]
    slow(bench, "sustained", 0.64)
    assert bench.verdict(SUSTAINED, GPU).outcome is NOT_MEASURED


def squeezed(bench):
    """Rounds of gemm so short that 0.7 s of each precision count."""
    bench.rounds(
        GPU,
        "gemm",
        t_s=lambda one: 6.5 + 0.7 * (one.t_s - 6.5),
        **{name: lambda one, name=name: 0.7 * getattr(one, name) for name in ("seconds", "work")},
    )


@pytest.mark.parametrize(("waits", "outcome"), [(True, PASS), (False, FAIL)])
def test_nor_are_products_of_less_than_a_second_that_the_host_slowed_down(bench, waits, outcome):
    squeezed(bench)
    numbers = count()
    bench.rounds(GPU, "gemm", work=lambda one: one.work * (0.3 if next(numbers) % 8 == 7 else 1.0))
    if waits:
        bench.rounds(GPU, "gemm", host_paced=True)
    assert bench.verdict(BF16, GPU).outcome is PASS
    assert bench.verdict(STABILITY, GPU).outcome is outcome
