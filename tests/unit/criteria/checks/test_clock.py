import math
from dataclasses import replace

import pytest

from rigproof.criteria.checks.clock import _drawn_while_low, _means_mhz
from rigproof.criteria.evidence.counters import names_of
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.fed import fed
from rigproof.criteria.evidence.loads import FEWEST_SAMPLES, load_of
from rigproof.judging.catalogue import CATALOGUE
from rigproof.records.verdict import Outcome, sentence

GPU, RATIO = "pc1/gpu0", "clock.ratio"


def at_its_cap(bench, power_w=690, average_w=None):
    """Instant power and its average over a second, both a little restless as live sensors are."""
    for field, level_w in (("power_w", power_w), ("power_average_w", average_w or power_w)):
        bench.samples(GPU, 5, **{field: lambda sample, w=level_w: w + (sample.t_s % 2 - 1) / 10})


def unknown_card(bench):
    bench.rig(nodes=[{"name": "pc1", "gpus": [{"sku": "unknown", "workers": 2, "memory_gib": 141}]}])
    bench.gpu(GPU, sku=None)


@pytest.mark.parametrize(
    ("from_s", "to_s", "clock_mhz", "why"),
    [
        (5, 136, 0, "gemm: the SM clock reads 0 MHz while work was measured, which is not possible"),
        (
            40,
            40.05,
            2400,
            "sustained: the SM clock reads 2400 MHz at t=40 s, which is not possible (at most 2277 MHz)",
        ),
        (0, 136, None, "gemm: no SM clock was read under load; "),
    ],
)
def test_a_clock_that_no_card_has_was_misread(bench, from_s, to_s, clock_mhz, why):
    bench.samples(GPU, from_s, to_s, sm_clock_mhz=clock_mhz)
    verdict = bench.verdict(RATIO, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail.startswith(why)


def test_an_overclocked_card_reads_more_than_its_highest_clock(bench):
    bench.samples(GPU, 5, sm_clock_mhz=2270)
    assert bench.verdict(RATIO, GPU).outcome is Outcome.PASS


@pytest.mark.parametrize(("clock_mhz", "outcome"), [(1683, Outcome.PASS), (1682, Outcome.FAIL)])
def test_an_unexplained_clock_under_85_percent_fails(bench, clock_mhz, outcome):
    bench.samples(GPU, 5, sm_clock_mhz=clock_mhz)
    assert bench.verdict(RATIO, GPU).outcome is outcome


@pytest.mark.parametrize(
    ("reasons", "outcome"),
    [
        (0x0, Outcome.FAIL),
        (0x1, Outcome.FAIL),  # idle explains nothing under load
        (0x2, Outcome.WARN),  # somebody set it
        (0x100, Outcome.WARN),
        (0x4, Outcome.PASS),
        (0x40, Outcome.PASS),  # thermal.throttle judges this one
        (None, Outcome.NOT_MEASURED),
    ],
)
def test_a_low_clock_passes_where_the_driver_explains_it(bench, reasons, outcome):
    at_its_cap(bench)
    bench.samples(GPU, 5, sm_clock_mhz=1470, clock_event_reasons=reasons)
    assert bench.verdict(RATIO, GPU).outcome is outcome


def test_a_clock_that_is_explained_shows_no_limit_that_it_misses(bench):
    at_its_cap(bench)
    bench.samples(GPU, 5, sm_clock_mhz=1470, clock_event_reasons=0x4)
    verdict = bench.verdict(RATIO, GPU)
    assert (verdict.outcome, verdict.limit, verdict.direction) == (Outcome.PASS, None, None)
    assert sentence(verdict) == (
        f"{GPU} clock.ratio: 74.2 %, explained by power cap (0x4): 1470 MHz of 1980 MHz, at 690 of 700 W, "
        "in the gemm stage"
    )


@pytest.mark.parametrize(
    ("power_w", "outcome"), [(631, Outcome.PASS), (629, Outcome.FAIL), (245, Outcome.FAIL)]
)
def test_a_power_cap_explains_nothing_where_the_card_draws_less_than_its_cap(bench, power_w, outcome):
    at_its_cap(bench, power_w)
    bench.samples(GPU, 5, sm_clock_mhz=1470, clock_event_reasons=0x4)
    verdict = bench.verdict(RATIO, GPU)
    assert verdict.outcome is outcome
    assert f"at {power_w} of 700 W" in verdict.detail


def test_the_cap_holds_the_average_where_the_instant_power_swings(bench):
    at_its_cap(bench, 610, 690)
    bench.recording.gpu_samples = [replace(one, energy_j=None) for one in bench.recording.gpu_samples]
    bench.samples(GPU, 5, sm_clock_mhz=1470, clock_event_reasons=0x4)
    verdict = bench.verdict(RATIO, GPU)
    assert (verdict.outcome, "at 690 of 700 W" in verdict.detail) == (Outcome.PASS, True)
    bench.samples(GPU, 5, power_average_w=690)
    assert bench.verdict(RATIO, GPU).outcome is Outcome.NOT_MEASURED  # a frozen average explains nothing


def test_the_cap_holds_the_mean_of_the_readings_with_a_low_clock(bench):
    """The average still rises, as in the first two seconds of a load, and most readings are under the cap."""

    def scattered_w(sample):
        if sample.sm_clock_mhz > 1900:
            return 100  # before the cap takes effect
        return 800 if sample.t_s % 0.5 < 0.25 else 600

    at_its_cap(bench, 690, 560)
    bench.recording.gpu_samples = [replace(one, energy_j=None) for one in bench.recording.gpu_samples]
    bench.samples(GPU, 5, sm_clock_mhz=lambda sample: 1980 if sample.t_s % 1 < 0.3 else 1470)
    bench.samples(GPU, 5, power_w=scattered_w, clock_event_reasons=0x4)
    verdict = bench.verdict(RATIO, GPU)
    assert (verdict.outcome, verdict.limit_source) == (Outcome.PASS, "explained by power cap (0x4)"), verdict


@pytest.mark.parametrize(
    ("lower", "other", "outcome", "shown"),
    [
        (0x0, 0x0, Outcome.FAIL, 1400),
        (0x4, 0x4, Outcome.PASS, 1400),
        (0x4, 0x2, Outcome.WARN, 1500),  # one that warns before a lower one that passes
        (0x4, 0x0, Outcome.FAIL, 1500),  # one that nothing explains before all others
    ],
)
def test_of_stretches_with_a_low_clock_the_worst_is_reported(bench, lower, other, outcome, shown):
    bench.only("sustained")
    at_its_cap(bench)
    bench.samples(GPU, 38.55, 49.05, sm_clock_mhz=1400, clock_event_reasons=lower)
    bench.samples(GPU, 49.05, 59.55, sm_clock_mhz=1500, clock_event_reasons=other)
    verdict = bench.verdict(RATIO, GPU)
    assert (verdict.outcome, verdict.measured) == (outcome, pytest.approx(100 * shown / 1980, abs=0.1))
    if outcome is Outcome.FAIL:
        assert verdict.from_s == pytest.approx(49 if shown == 1500 else 38.5, abs=0.5)


@pytest.mark.parametrize(
    ("stage", "from_s", "to_s"),
    [("gemm", 5, 25), ("training", 72, 92), ("feeding", 93, 113), ("sharing", 114, 134)],
)
def test_a_low_clock_in_any_stage_fails(bench, stage, from_s, to_s):
    bench.samples(GPU, from_s, to_s, sm_clock_mhz=1400, clock_event_reasons=0)
    verdict = bench.verdict(RATIO, GPU)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.detail.endswith(f"in the {stage} stage")


@pytest.mark.parametrize(("clock_mhz", "outcome"), [(1386, Outcome.PASS), (1385, Outcome.FAIL)])
def test_an_unknown_card_reaches_70_percent_of_its_highest_clock(bench, clock_mhz, outcome):
    unknown_card(bench)
    bench.samples(GPU, 5, sm_clock_mhz=clock_mhz, clock_event_reasons=0)
    verdict = bench.verdict(RATIO, GPU)
    assert verdict.outcome is outcome
    assert verdict.limit_source.endswith("of NVML's highest clock")


def test_an_unknown_card_far_under_its_cap_does_not_pass_by_the_cap(bench):
    unknown_card(bench)
    at_its_cap(bench, 245)
    bench.samples(GPU, 5, sm_clock_mhz=600, clock_event_reasons=0x4)
    assert bench.verdict(RATIO, GPU).outcome is Outcome.FAIL


def test_a_geforce_at_its_printed_boost_passes(bench):
    bench.rig(nodes=[{"name": "pc1", "gpus": [{"sku": "rtx-3090", "workers": 2}]}])
    bench.gpu(GPU, sm_clock_max_mhz=2100)
    for stage in bench.recording.stages:
        bench.slow(GPU, 0.1, stage=stage)
    bench.samples(GPU, 5, sm_clock_mhz=1695, clock_event_reasons=0)
    verdict = bench.verdict(RATIO, GPU)
    assert (verdict.outcome, verdict.measured) == (Outcome.PASS, 100)
    assert verdict.limit_source.endswith("of the boost clock of hwprofiles/gpus/rtx-3090.toml")


def test_a_cap_that_no_limit_confirms_warns(bench):
    unknown_card(bench)
    bench.gpu(GPU, power_limit_w=None)
    bench.samples(GPU, 5, sm_clock_mhz=1300, clock_event_reasons=0x4)
    verdict = bench.verdict(RATIO, GPU)
    assert verdict.outcome is Outcome.WARN
    assert "the driver reports none" in verdict.detail
    bench.samples(GPU, 5, clock_event_reasons=0x6)  # one that a user set is undone by a command
    remedy = bench.verdict(RATIO, GPU).remedy
    assert verdict.remedy == remedy == CATALOGUE[RATIO].remedy


def test_a_clock_at_which_the_card_could_not_do_its_work_is_no_reading(bench):
    bench.samples(GPU, 26, 71, sm_clock_mhz=600)
    verdict = bench.verdict(RATIO, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert "the card cannot do the" in verdict.detail


def test_an_explanation_of_less_than_half_of_the_samples_is_none(bench):
    bench.samples(GPU, 5, sm_clock_mhz=1470, clock_event_reasons=lambda s: 0x4 if s.t_s % 1 < 0.35 else 0)
    assert bench.verdict(RATIO, GPU).outcome is Outcome.FAIL


def test_a_card_that_lost_its_worker_is_not_sent_to_the_repair_shop(bench):
    bench.samples(GPU, 40, sm_clock_mhz=1400, clock_event_reasons=0x1)
    assert bench.verdict(RATIO, GPU).outcome is Outcome.FAIL
    bench.lose(f"{GPU}#0", "worker_died", "it is gone", 40)
    verdict = bench.verdict(RATIO, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert "its worker was lost at t=40 s" in verdict.detail
    bench.event("worker_died", GPU, "so is its successor", 45.0, f"{GPU}#0", "sustained")
    assert "its worker was lost at t=40 s" in bench.verdict(RATIO, GPU).detail


@pytest.mark.parametrize(
    ("maximum_mhz", "outcome"), [(None, Outcome.NOT_APPLICABLE), (0, Outcome.NOT_MEASURED)]
)
def test_without_a_boost_clock_and_a_maximum_there_is_nothing_to_compare_with(bench, maximum_mhz, outcome):
    unknown_card(bench)
    bench.gpu(GPU, sm_clock_max_mhz=maximum_mhz)
    verdict = bench.verdict(RATIO, GPU)
    assert verdict.outcome is outcome
    assert verdict.detail.endswith("NVML does not report the maximum SM clock")


def test_reasons_are_named_bit_by_bit():
    assert names_of(0x44) == "power cap (0x4), HW thermal slowdown (0x40)"
    assert names_of(0) == ""


@pytest.mark.parametrize(("low", "outcome"), [(2, Outcome.PASS), (3, Outcome.FAIL)])
def test_a_clock_that_is_low_for_less_than_half_of_the_time_counts_by_its_mean(bench, low, outcome):
    """In 2 of 10 samples: 1704 MHz in the mean, in 3 of 10: 1566 MHz; 1683 are the least."""
    bench.samples(GPU, 30, 71, sm_clock_mhz=lambda one: 600 if round(one.t_s * 10) % 10 < low else 1980)
    bench.slow(GPU, 0.5)
    verdict = bench.verdict(RATIO, GPU)
    assert verdict.outcome is outcome
    if outcome is Outcome.FAIL:
        assert "the driver gives no reason" in verdict.detail


def test_what_explains_the_low_part_of_the_time_explains_the_mean(bench):
    def slowed(one):
        return round(one.t_s * 10) % 10 < 3

    bench.samples(GPU, sm_clock_mhz=lambda one: 600 if slowed(one) else 1980)
    bench.samples(GPU, clock_event_reasons=lambda one: 0x40 if slowed(one) else 0x0)
    verdict = bench.verdict(RATIO, GPU)
    assert (verdict.outcome, verdict.measured) == (Outcome.PASS, pytest.approx(79, abs=1))
    assert verdict.limit_source == "explained by HW thermal slowdown (0x40)"
    bench.samples(GPU, clock_event_reasons=lambda one: 0x0 if slowed(one) else 0x40)
    assert bench.verdict(RATIO, GPU).outcome is Outcome.FAIL


def test_a_card_that_fell_half_way_through_is_slow_not_misread(bench):
    """Its rate fell with its clock, so that the mean of both agree; half of the samples are low."""
    bench.samples(GPU, 43.65, 49.3, sm_clock_mhz=600)
    bench.slow(GPU, 0.3, from_s=43.65)
    verdict = bench.verdict(RATIO, GPU)
    assert (verdict.outcome, verdict.detail[:8]) == (Outcome.FAIL, "600 MHz ")


@pytest.mark.parametrize(("index", "node"), [(0, "pc1"), (3, "pc1")])
def test_a_clock_that_somebody_set_is_undone_on_the_card_that_it_is_of(bench, index, node):
    bench.gpu(GPU, index=index)
    at_its_cap(bench, 330)
    bench.samples(GPU, 5, sm_clock_mhz=1470, clock_event_reasons=0x6)
    verdict = bench.verdict(RATIO, GPU)
    assert verdict.outcome is Outcome.WARN
    # The cap is not what explains it: the card draws half of it.
    assert verdict.detail.startswith(
        "1470 MHz of 1980 MHz, explained by application clocks setting (0x2), at 330 of 700 W"
    )
    assert verdict.remedy.startswith(f"undo it on {node} with `nvidia-smi -i {index} -rgc` or `-rac`")


@pytest.mark.parametrize(("gap_s", "waited"), [(1.3, False), (1.4, True)])
def test_only_a_card_that_waited_is_told_to_wait_less(bench, gap_s, waited):
    """Of 13 s of generation a tenth may pass without any."""
    bench.samples(GPU, 93, 113, sm_clock_mhz=1400)
    kept = [one for one in bench.recording.rounds if (one.subject, one.stage) != (GPU, "feeding")]
    fed = [one for one in bench.recording.rounds if (one.subject, one.stage) == (GPU, "feeding")]
    short = gap_s / 26  # the gap is spread over the measured rounds
    bench.recording.rounds = kept + [
        replace(one, seconds=one.seconds - short) if one.phase == "measure" else one for one in fed
    ]
    verdict = bench.verdict(RATIO, GPU)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.remedy.startswith("see feeding.idle_gaps" if waited else "restart the machine")


def test_a_fault_in_the_last_part_of_feeding_is_not_averaged_away(bench):
    bench.samples(GPU, 108.5, 113, sm_clock_mhz=600, clock_event_reasons=0)
    bench.slow(GPU, 0.3, stage="feeding", from_s=108.5)
    verdict = bench.verdict(RATIO, GPU)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.from_s == pytest.approx(108.75)


def test_of_clocks_that_are_high_enough_the_lowest_is_shown(bench):
    bench.samples(GPU, 41, 61, sm_clock_mhz=1900)
    verdict = bench.verdict(RATIO, GPU)
    assert (verdict.outcome, verdict.measured) == (Outcome.PASS, pytest.approx(100 * 1900 / 1980))


@pytest.mark.parametrize("limit_w", [0.0, -1.0])
def test_a_power_limit_of_nothing_explains_nothing(bench, limit_w):
    at_its_cap(bench)
    bench.gpu(GPU, power_limit_w=limit_w)
    bench.samples(GPU, 5, sm_clock_mhz=1470, clock_event_reasons=0x4)
    assert bench.verdict(RATIO, GPU).outcome is not Outcome.PASS


@pytest.mark.parametrize(("lost_s", "stage"), [(20.0, "gemm"), (69.0, "sustained")])
def test_a_worker_that_is_lost_in_another_stage_or_later_excuses_no_clock(bench, lost_s, stage):
    bench.samples(GPU, 41, 51, sm_clock_mhz=1400, clock_event_reasons=0)
    bench.event("worker_died", GPU, "it is gone", lost_s, f"{GPU}#0", stage)
    assert bench.verdict(RATIO, GPU).outcome is Outcome.FAIL


@pytest.mark.parametrize(("number", "known"), [(FEWEST_SAMPLES, True), (FEWEST_SAMPLES - 1, False)])
def test_the_mean_clock_of_a_few_samples_contradicts_no_rate(bench, number, known):
    places = [one.t_s for one in bench.recording.gpu_samples if one.subject == GPU and one.t_s > 50]
    bench.samples(GPU, 26, 71, sm_clock_mhz=None)
    bench.samples(GPU, places[0], places[number - 1], sm_clock_mhz=1500)
    device = Evidence(bench.recording, bench.loaded).device(GPU)
    means = [mean for _, mean in _means_mhz(device, load_of(device, "sustained"))]
    assert sorted(means)[0] == (1500 if known else math.inf)


def test_a_clock_right_at_the_least_one_is_not_low(bench):
    """It is low in four of ten samples, and in all of them because of heat; 1683 MHz are the least."""

    def slowed(one):
        return round(one.t_s * 10) % 10 < 4

    bench.samples(GPU, 5, sm_clock_mhz=lambda one: 1500 if slowed(one) else 1683)
    bench.samples(GPU, 5, clock_event_reasons=lambda one: 0x40 if slowed(one) else 0)
    verdict = bench.verdict(RATIO, GPU)
    assert (verdict.outcome, verdict.limit_source) == (
        Outcome.PASS,
        "explained by HW thermal slowdown (0x40)",
    )


@pytest.mark.parametrize(
    ("reasons", "detail"),
    [
        (0x0, "1470 MHz of 1980 MHz, and the driver gives no reason, in the gemm stage"),
        (0x2, "1470 MHz of 1980 MHz, explained by application clocks setting (0x2), in the gemm stage"),
        (0x40, "1470 MHz of 1980 MHz, in the gemm stage"),
    ],
)
def test_only_a_power_cap_is_told_with_what_was_drawn(bench, reasons, detail):
    bench.samples(GPU, 5, sm_clock_mhz=1470, clock_event_reasons=reasons)
    assert bench.verdict(RATIO, GPU).detail == detail


@pytest.mark.parametrize("unknown", [False, True])
def test_the_fastest_of_several_precisions_contradicts_the_clock_wherever_it_stands(bench, unknown):
    """Those before it fit the clock, or the SKU file states no peak of them."""
    rounds = [one for one in bench.recording.rounds if (one.subject, one.stage) == (GPU, "gemm")]
    last = max(rounds, key=lambda one: one.t_s).label("precision")
    assert len({one.label("precision") for one in rounds}) > 1
    if unknown:
        sku = bench.loaded.skus["h200"]
        peak = sku.peak_tflops.model_copy(
            update={name: None for name in ("fp32", "tf32", "fp16", "bf16", "fp8") if name != last}
        )
        known = sku.model_copy(update={"peak_tflops": peak})
        bench.loaded = replace(bench.loaded, skus=bench.loaded.skus | {"h200": known})
    bench.samples(GPU, 5, 25, sm_clock_mhz=1683)
    assert bench.verdict(RATIO, GPU).outcome is Outcome.PASS
    bench.rounds(GPU, "gemm", work=lambda one: one.work * (1.45 if one.label("precision") == last else 1))
    verdict = bench.verdict(RATIO, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert f"TFLOP/s of {last} that it did" in verdict.detail


def test_a_card_that_waited_for_as_long_as_it_may_did_not_wait_too_long(bench):
    bench.samples(GPU, 93, 113, sm_clock_mhz=1400)
    bench.rounds(GPU, "feeding", seconds=lambda one: 0.44)
    share = fed(Evidence(bench.recording, bench.loaded).device(GPU)).idle_share
    for most, remedy in ((share, "restart the machine"), (share * 0.999, "see feeding.idle_gaps")):
        bench.limits(idle_share=most)
        assert bench.verdict(RATIO, GPU).remedy.startswith(remedy)


def test_the_power_of_a_low_clock_is_that_of_the_readings_under_the_least_one(bench):
    """Half of the readings are right at it, when the card drew next to nothing."""

    def low(one):
        return round(one.t_s * 10) % 2 == 0

    bench.samples(GPU, 5, sm_clock_mhz=lambda one: 1500 if low(one) else 1683)
    bench.samples(GPU, 5, power_w=lambda one: 690.0 if low(one) else 100.0)
    device = Evidence(bench.recording, bench.loaded).device(GPU)
    (piece, *_) = load_of(device, "sustained").pieces
    assert _drawn_while_low(device, piece, 1683.0) == (690.0, 0.0)
    drawn_w, doubt_w = _drawn_while_low(device, piece, 1684.0)
    assert drawn_w == pytest.approx(395, abs=5)
    assert doubt_w == pytest.approx(
        2 * 295 / math.sqrt(sum(one.stop - one.start for one in piece.places)), rel=0.05
    )
