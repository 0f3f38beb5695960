"""throughput.stability, window by window: which of them decides, and where the limits are."""

from dataclasses import replace

import pytest

from rigproof.records.measurements import TFLOP, Round
from rigproof.records.verdict import Outcome

GPU, OTHER, STABILITY = "pc1/gpu0", "pc2/gpu0", "throughput.stability"
FROM_S, WIDTH_S = 31.0, 5.0
STEADY = [100.0] * 16


def windows(bench, rates, width_s=WIDTH_S):
    """A sustained stage of these rates, TFLOP/s, one a window; 0 leaves the window empty."""
    rounds = [one for one in bench.recording.rounds if (one.subject, one.stage) != (GPU, "sustained")]
    for place, rate in enumerate(rates):
        for half in (1, 2) if rate else ():
            end_s = FROM_S + (place + half / 2) * width_s
            seconds = width_s / 2
            who, labels = ("sustained", "pc1/gpu0#0", GPU, "measure"), {"precision": "bf16", "size": 1024}
            rounds.append(Round(end_s, *who, seconds, rate * seconds, TFLOP, True, labels))
    bench.recording.rounds = rounds
    to_s = FROM_S + len(rates) * width_s
    bench.stage("sustained", loaded_from_s=FROM_S, loaded_to_s=to_s, end_s=200.0, status="partial")


def judged(bench, rates, width_s=WIDTH_S):
    windows(bench, rates, width_s)
    return bench.verdict(STABILITY, GPU)


def at(place, rate):
    return [*STEADY[:place], rate, *STEADY[place + 1 :]]


def test_a_steady_rate_keeps_all_of_it(bench):
    verdict = judged(bench, STEADY)
    assert (verdict.outcome, verdict.measured, verdict.limit) == (Outcome.PASS, pytest.approx(100.0), 95.0)
    assert verdict.detail == "worst window 100.0 TFLOP/s, median 100.0"


def test_the_last_quarter_is_judged_by_its_median(bench):
    verdict = judged(bench, [*STEADY[:12], 90.0, 90.0, 90.0, 100.0])
    assert (verdict.outcome, verdict.measured) == (Outcome.FAIL, pytest.approx(90.0))
    assert verdict.detail == "90.0 TFLOP/s in the last quarter, 100.0 in the first"
    assert verdict.from_s == FROM_S + 12 * WIDTH_S
    assert judged(bench, [*STEADY[:12], 90.0, 100.0, 100.0, 100.0]).outcome is Outcome.PASS


def test_the_first_quarter_is_judged_by_its_median(bench):
    assert judged(bench, [115.0, 100.0, 100.0, 100.0, *STEADY[4:12], *[96.0] * 4]).outcome is Outcome.PASS
    verdict = judged(bench, [90.0, 100.0, 100.0, 100.0, *STEADY[4:12], *[94.0] * 4])
    assert (verdict.outcome, verdict.measured) == (Outcome.FAIL, pytest.approx(94.0))


def test_a_quarter_is_a_quarter_of_the_windows(bench):
    assert judged(bench, [*STEADY[:12], 90.0, 100.0, 100.0, 90.0]).outcome is Outcome.PASS
    assert judged(bench, [*STEADY[:11], *[90.0] * 5]).from_s == FROM_S + 12 * WIDTH_S
    verdict = judged(bench, [*[110.0] * 4, *STEADY[4:]])
    assert verdict.measured == pytest.approx(100 / 1.1)


@pytest.mark.parametrize(("last", "outcome"), [(95.0, Outcome.PASS), (94.9, Outcome.FAIL)])
def test_the_last_quarter_may_be_at_its_limit(bench, last, outcome):
    assert judged(bench, [*STEADY[:12], *[last] * 4]).outcome is outcome


@pytest.mark.parametrize(("place", "rate"), [(0, 84.0), (5, 84.0), (8, 84.0), (15, 84.0), (9, 0.0)])
def test_one_window_that_falls_far_below_fails_wherever_it_is(bench, place, rate):
    verdict = judged(bench, at(place, rate))
    assert (verdict.outcome, verdict.measured, verdict.limit) == (Outcome.FAIL, pytest.approx(rate), 85.0)
    assert (verdict.from_s, verdict.length_s) == (FROM_S + place * WIDTH_S, WIDTH_S)
    assert verdict.detail == f"worst window {rate} TFLOP/s, median 100.0"
    assert judged(bench, at(place, 85.0)).outcome is Outcome.PASS


def test_the_worst_window_is_compared_with_the_median_of_all(bench):
    """Half of them slower: the median is between both, and the worst one is not far below it."""
    slow = [100.0, 80.0] * 8
    assert judged(bench, slow).outcome is Outcome.PASS
    verdict = judged(bench, [*slow[:9], 76.0, *slow[10:]])
    assert (verdict.outcome, verdict.detail) == (Outcome.FAIL, "worst window 76.0 TFLOP/s, median 90.0")


@pytest.mark.parametrize(
    "rates",
    [
        [100.0, 0.0, 0.0, 0.0, *STEADY[4:]],  # the first quarter's median
        [*STEADY[:4], *[0.0] * 12],  # that of all
    ],
)
def test_without_work_in_most_windows_there_is_nothing_to_compare(bench, rates):
    verdict = judged(bench, rates)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail == "the rate of most windows is zero; there is nothing to compare"


def test_four_windows_of_a_second_are_the_fewest(bench):
    verdict = judged(bench, [100.0, 100.0, 100.0, 90.0], width_s=1.0)
    assert (verdict.outcome, verdict.measured, verdict.from_s) == (
        Outcome.FAIL,
        pytest.approx(90.0),
        FROM_S + 3.0,
    )
    verdict = judged(bench, [100.0] * 4, width_s=0.99)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail == "4.0 s of settled load do not hold 4 windows of 1 s"


def test_a_stage_of_less_than_four_full_windows_is_cut_into_four(bench):
    verdict = judged(bench, [100.0, 100.0, 80.0, 100.0], width_s=3.0)
    assert (verdict.outcome, verdict.from_s, verdict.length_s) == (Outcome.FAIL, FROM_S + 6.0, 3.0)


@pytest.mark.parametrize(("share", "outcome"), [(0.80, Outcome.FAIL), (0.81, Outcome.PASS)])
def test_the_windows_divide_all_of_the_load_so_that_a_sag_at_the_very_end_is_seen(bench, share, outcome):
    windows(bench, [*STEADY, 100.0])
    bench.stage("sustained", loaded_to_s=FROM_S + 16 * WIDTH_S + 4.0)
    bench.rounds(GPU, "sustained", FROM_S + 16 * WIDTH_S + 0.1, work=lambda one: one.work * share)
    verdict = bench.verdict(STABILITY, GPU)
    assert verdict.outcome is outcome
    if outcome is Outcome.FAIL:
        assert (verdict.from_s, verdict.length_s) == (
            pytest.approx(FROM_S + 15 * 84 / 16),
            pytest.approx(84 / 16),
        )


@pytest.mark.parametrize(("seconds", "number"), [(24.9, 4), (25.0, 5), (29.9, 5), (6.0, 4)])
def test_there_are_as_many_windows_of_five_seconds_as_fit_and_four_at_least(bench, seconds, number):
    judged(bench, [100.0] * 20, width_s=2.0)
    bench.stage("sustained", loaded_to_s=FROM_S + seconds)
    bench.rounds(GPU, "sustained", FROM_S, FROM_S + 2.0, work=lambda one: one.work / 4)
    verdict = bench.verdict(STABILITY, GPU)
    assert (verdict.outcome, verdict.length_s) == (Outcome.FAIL, pytest.approx(seconds / number))


def test_a_slow_device_is_judged_as_well_as_a_fast_one(bench):
    verdict = judged(bench, [0.5] * 16)
    assert (verdict.outcome, verdict.measured) == (Outcome.PASS, pytest.approx(100.0))


def test_what_the_cpu_as_the_device_keeps_is_only_reported(bench):
    windows(bench, [*STEADY[:12], *[50.0] * 4])
    cpu = {"name": "pc1", "cpus": 8, "ram_gib": 64, "gpus": [{"sku": "unknown", "device": "cpu"}]}
    bench.rig(nodes=[cpu])
    bench.recording.gpus = {"pc1/cpu0": replace(bench.recording.gpus[GPU], subject="pc1/cpu0", device="cpu")}
    bench.recording.rounds = [
        replace(one, subject="pc1/cpu0") for one in bench.recording.rounds if one.subject == GPU
    ]
    verdict = bench.verdict(STABILITY, "pc1/cpu0")
    assert (verdict.outcome, verdict.measured) == (Outcome.NO_LIMIT, pytest.approx(50.0))


# Against its best windows, and its products alone


@pytest.mark.parametrize(
    ("rates", "outcome"),
    [
        (at(8, 90.0), Outcome.PASS),
        (at(8, 89.9), Outcome.FAIL),
        ([*[88.0] * 12, *STEADY[12:]], Outcome.FAIL),  # a sag that ends: the median is in it
        ([115.0, *STEADY[1:]], Outcome.PASS),  # a single boost is no reference
        ([*[111.0] * 4, *STEADY[4:12], *[106.0] * 4], Outcome.PASS),
        ([*[112.0] * 4, *STEADY[4:12], *[107.0] * 4], Outcome.FAIL),
    ],
)
def test_no_window_is_far_below_the_best_quarter_of_them(bench, rates, outcome):
    bench.settings("sustained", best_window_share=0.90)
    bench.rounds(GPU, "gemm", work=lambda one: one.work / 1000)  # no reference here
    verdict = judged(bench, rates)
    assert verdict.outcome is outcome
    if outcome is Outcome.FAIL:
        assert "best ones" in verdict.detail
        assert verdict.limit == pytest.approx(90.0)


def alone(bench, rate, **labels):
    """Products alone, at this rate; its two workers together are due 0.9 of it."""
    bench.rounds(
        GPU,
        "gemm",
        work=lambda one: rate * one.seconds,
        labels=lambda one: {"precision": "bf16", "size": 1024} | labels,
    )


@pytest.mark.parametrize(("rate", "outcome"), [(123.0, Outcome.PASS), (124.0, Outcome.FAIL)])
def test_a_load_that_was_slow_from_its_beginning_is_held_against_its_products_alone(bench, rate, outcome):
    bench.settings("sustained", best_window_share=0.90)
    alone(bench, rate)
    verdict = judged(bench, STEADY)
    assert verdict.outcome is outcome
    if outcome is Outcome.FAIL:
        assert verdict.detail == "worst window 100.0 TFLOP/s, bf16 products alone 111.6"


@pytest.mark.parametrize("why", ["other size", "other precision", "no power limit", "no key"])
def test_products_that_do_not_compare_are_no_reference(bench, why):
    if why != "no key":
        bench.settings("sustained", best_window_share=0.90)
    size = 512 if why == "other size" else 1024
    alone(bench, 200.0, size=size, precision="fp16" if why == "other precision" else "bf16")
    if why == "no power limit":
        bench.gpu(GPU, power_limit_w=None)
    assert judged(bench, STEADY).outcome is Outcome.PASS


# In the other stages


@pytest.mark.parametrize(
    ("stage", "from_s", "span_s", "work"),
    [
        ("gemm", 9.1, (9.0, 0.5), "precision fp32, size 1024"),
        ("feeding", 105.0, (105.5, 3.0), "precision bf16, size 16384"),
        ("sharing", 117.6, (118.0, 0.5), "precision bf16, process 0, processes 1, size 1024"),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_a_rate_that_falls_by_half_inside_a_stage_fails_whatever_the_card(
    bench, stage, from_s, span_s, work, known
):
    if not known:
        bench.rig(nodes=[{"name": name, "gpus": [{"sku": "unknown"}]} for name in ("pc1", "pc2")])
    bench.slow(GPU, 0.5, stage, from_s=from_s)
    verdict = bench.verdict(STABILITY, GPU)
    assert (verdict.outcome, verdict.measured, verdict.limit) == (Outcome.FAIL, pytest.approx(50), 70)
    assert f" in a quarter of {stage} ({work})" in verdict.detail
    assert (verdict.from_s, verdict.length_s) == pytest.approx(span_s)
    assert bench.verdict(STABILITY, OTHER).outcome is Outcome.PASS


@pytest.mark.parametrize(("share", "outcome"), [(0.701, Outcome.PASS), (0.699, Outcome.FAIL)])
def test_the_best_quarter_is_the_reference_wherever_it_is(bench, share, outcome):
    bench.rounds(GPU, "feeding", to_s=104.0, work=lambda one: one.work * share)
    assert bench.verdict(STABILITY, GPU).outcome is outcome


def test_different_work_of_a_stage_is_not_compared(bench):
    bench.slow(GPU, 0.5, "gemm", from_s=10.5)  # all precisions but the first
    assert bench.verdict(STABILITY, GPU).outcome is Outcome.PASS


def test_what_a_card_does_before_its_power_cap_holds_is_no_reference(bench):
    bench.rounds(GPU, "sharing", to_s=117.4, work=lambda one: 3 * one.work)
    assert bench.verdict(STABILITY, GPU).outcome is Outcome.PASS


def test_work_that_is_repeated_for_less_than_a_second_is_no_reference(bench):
    bench.rounds(GPU, "feeding", seconds=0.03, work=lambda one: one.work * 0.03 / one.seconds)
    bench.slow(GPU, 0.5, "feeding", from_s=105.0)
    assert bench.verdict(STABILITY, GPU).outcome is Outcome.PASS


@pytest.mark.parametrize(("fallen", "outcome"), [(0.85, Outcome.PASS), (0.5, Outcome.FAIL)])
def test_short_work_counts_together_each_relative_to_its_own_rate(bench, fallen, outcome):
    places = iter(range(10**6))
    sizes = lambda _: 512 * (1 + next(places) % 9)  # noqa: E731 - none is done for a second
    bench.rounds(GPU, "feeding", seconds=0.25, work=lambda one: one.work / 2, size=sizes)
    bench.rounds(GPU, "feeding", work=lambda one: one.work * one.label("size") / 4608)
    bench.slow(GPU, fallen, "feeding", from_s=105.5)
    verdict = bench.verdict(STABILITY, GPU)
    assert verdict.outcome is outcome
    short = " of the mean rate in a quarter of feeding (all work of less than a second)"
    assert verdict.detail.endswith(short) is (outcome is Outcome.FAIL)


def test_one_slow_round_of_a_quarter_is_a_hiccup(bench):
    bench.slow(GPU, 0.5, "feeding", from_s=111.4)
    assert bench.verdict(STABILITY, GPU).outcome is Outcome.PASS


@pytest.mark.parametrize(("every", "share", "outcome"), [(6, 0.5, Outcome.PASS), (3, 0.5, Outcome.FAIL)])
def test_more_than_a_fifth_of_slow_rounds_is_no_hiccup(bench, every, share, outcome):
    places = iter(range(10**6))
    bench.rounds(GPU, "feeding", work=lambda one: one.work * (1 if next(places) % every else share))
    verdict = bench.verdict(STABILITY, GPU)
    assert verdict.outcome is outcome
    assert " in a fifth of the rounds of feeding (" in verdict.detail or outcome is Outcome.PASS


def test_a_recording_from_before_the_limit_is_not_judged_by_it(bench):
    bench.slow(GPU, 0.5, "feeding", from_s=105.0)
    bench.limits(best_quarter_share=None, slow_fifth_share=None)
    assert bench.verdict(STABILITY, GPU).outcome is Outcome.PASS


def sweep(bench, **steps_ms):
    """A card that only sweeps over batches: ms of a step in each of its measured rounds."""
    rounds = [one for one in bench.recording.rounds if (one.subject, one.stage) != (GPU, "training")]
    end_s = 74.0
    for batch, of_batch in steps_ms.items():
        for step_ms in of_batch:
            number, seconds = int(batch[1:]), 10 * step_ms / 1000
            end_s += seconds
            labels = {"precision": "fp16", "size": 2496, "part": "sweep", "batch": number, "steps": 10}
            who = ("training", "pc1/gpu0#0", GPU, "measure")
            rounds.append(Round(end_s, *who, seconds, 1.0 * number, TFLOP, True, labels))
    bench.recording.rounds = rounds
    return bench.verdict(STABILITY, GPU)


WANDERS = [18.0] * 10 + [27.0] * 6 + [18.0] * 6


@pytest.mark.parametrize(
    ("larger_ms", "outcome"),
    [(20.0, Outcome.PASS), (25.7, Outcome.PASS), (25.8, Outcome.FAIL), (36.0, Outcome.FAIL)],
)
def test_steps_whose_pace_the_host_sets_may_wander(bench, larger_ms, outcome):
    verdict = sweep(bench, b1=WANDERS, b2=[larger_ms] * 22)
    assert verdict.outcome is outcome
    assert "a quarter of training (batch 1, " in verdict.detail or outcome is Outcome.PASS


def test_a_card_that_falls_to_the_pace_of_larger_steps_does_not_wait_for_its_host(bench):
    verdict = sweep(bench, b8=[42.0] * 10 + [84.0] * 6 + [42.0] * 6, b16=[73.0] * 4)
    assert (verdict.outcome, verdict.measured) == (Outcome.FAIL, pytest.approx(50))
    assert "a quarter of training (batch 8, " in verdict.detail


def test_the_largest_steps_have_no_excuse(bench):
    verdict = sweep(bench, b1=[18.0] * 22, b2=WANDERS)
    assert verdict.outcome is Outcome.FAIL
    assert "a quarter of training (batch 2, " in verdict.detail


def test_steps_without_a_number_are_no_excuse(bench):
    sweep(bench, b1=WANDERS, b2=[20.0] * 22)
    bench.rounds(GPU, "training", steps=0)
    assert bench.verdict(STABILITY, GPU).outcome is Outcome.FAIL


def test_without_the_share_of_those_that_wait_every_fall_counts(bench):
    bench.settings("training", host_paced_share=None)
    assert sweep(bench, b1=WANDERS, b2=[20.0] * 22).outcome is Outcome.FAIL
