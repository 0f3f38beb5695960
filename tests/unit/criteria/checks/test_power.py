import re
from dataclasses import replace

import pytest

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.loads import load_of
from rigproof.records.verdict import Outcome

GPU, DRAW, LIMIT = "pc1/gpu0", "power.draw", "power.limit"


@pytest.mark.parametrize(("power_w", "outcome"), [(734, Outcome.PASS), (736, Outcome.FAIL)])
def test_the_average_may_be_five_percent_over_the_enforced_limit(bench, power_w, outcome):
    bench.samples(GPU, 5, power_average_w=lambda sample: power_w + (sample.t_s % 2 - 1) / 10)
    verdict = bench.verdict(DRAW, GPU)
    assert (verdict.outcome, verdict.limit) == (outcome, 735)


def test_the_instant_power_stands_in_for_a_missing_average(bench):
    bench.samples(GPU, power_average_w=None)
    assert bench.verdict(DRAW, GPU).measured == pytest.approx(630, abs=1)


@pytest.mark.parametrize(
    ("span_s", "fields", "outcome"),
    [
        ((40, 40.3), {"power_w": 1200}, Outcome.PASS),  # a single spike of the instant power
        ((0, 136), {"power_w": None, "power_average_w": None}, Outcome.NOT_MEASURED),
        ((0, 136), {"power_w": 0, "power_average_w": 0}, Outcome.NOT_MEASURED),
        ((60, 136), {"power_average_w": 0}, Outcome.NOT_MEASURED),
    ],
)
def test_power_of_nothing_is_no_measurement_and_a_spike_no_alarm(bench, span_s, fields, outcome):
    bench.samples(GPU, *span_s, **fields)
    assert bench.verdict(DRAW, GPU).outcome is outcome


@pytest.mark.parametrize(
    ("loaded_to_s", "span_s", "outcome"),
    [(39.5, (30, 39.5), Outcome.PASS), (36.0, (0, 136), Outcome.NOT_MEASURED)],
)
def test_power_may_stand_still_for_less_than_ten_seconds_unless_it_never_moved(
    bench, loaded_to_s, span_s, outcome
):
    bench.stage("sustained", loaded_to_s=loaded_to_s)
    bench.samples(GPU, *span_s, power_average_w=650.0)
    assert bench.verdict(DRAW, GPU).outcome is outcome


def test_an_enforced_limit_that_nvml_does_not_report_is_no_measurement(bench):
    bench.gpu(GPU, power_limit_w=None)
    assert bench.verdict(DRAW, GPU).outcome is bench.verdict(LIMIT, GPU).outcome is Outcome.NOT_MEASURED


@pytest.mark.parametrize(
    ("length_s", "power_w", "outcome"),
    [(3.0, 760.0, Outcome.FAIL), (3.0, 734.0, Outcome.PASS), (1.5, 760.0, Outcome.PASS)],
)
def test_the_average_over_the_limit_for_three_seconds_is_noticed_wherever_they_are(
    bench, length_s, power_w, outcome
):
    """A quarter of the load has 10 s and more."""
    bench.samples(GPU, 38, 38 + length_s, power_average_w=lambda sample: power_w + sample.t_s % 2 / 10)
    verdict = bench.verdict(DRAW, GPU)
    assert verdict.outcome is outcome
    if outcome is Outcome.FAIL:
        assert 38 <= verdict.from_s <= 38.6
        assert verdict.length_s == pytest.approx(2.4)


@pytest.mark.parametrize("once_a_second", [False, True])
def test_a_power_sensor_that_stands_still_is_noticed_in_the_quick_level(bench, once_a_second):
    """The load of the quick level is 15 s long."""
    bench.stage("sustained", loaded_to_s=45.0)
    if once_a_second:
        bench.rig(sampling={"rate_hz": 1})
        bench.recording.gpu_samples = [one for one in bench.recording.gpu_samples if one.subject == GPU][::9]
    assert bench.verdict(DRAW, GPU).outcome is Outcome.PASS
    bench.samples(GPU, 26, power_average_w=500.0)
    verdict = bench.verdict(DRAW, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail.startswith("sustained: the power (1 s average) reads 500 W for 1")


@pytest.mark.parametrize(
    ("enforced_w", "outcome", "measured_w", "edge"),
    [
        (349, Outcome.FAIL, 349, (350, "at_least")),
        (349.5, Outcome.PASS, 350, (350, "at_least")),  # NVML counts milliwatts
        (350, Outcome.PASS, 350, (350, "at_least")),
        (390, Outcome.PASS, 390, (420, "at_most")),  # the nearest one
        (420, Outcome.PASS, 420, (420, "at_most")),
        (420.5, Outcome.PASS, 420, (420, "at_most")),
        (420.6, Outcome.FAIL, 420.6, (420, "at_most")),
    ],
)
def test_the_enforced_limit_lies_in_the_range_that_the_rig_states(
    bench, enforced_w, outcome, measured_w, edge
):
    bench.limits(power_limit_w=(350.0, 420.0))
    bench.gpu(GPU, power_limit_w=enforced_w, power_limit_default_w=350)
    verdict = bench.verdict(LIMIT, GPU)
    assert (verdict.outcome, verdict.measured, verdict.limit, verdict.direction) == (
        outcome,
        measured_w,
        *edge,
    )
    assert verdict.limit_source == "hwprofiles/rigs/two-nodes.toml"
    assert verdict.detail == "allowed: 350 to 420 W"


@pytest.mark.parametrize(
    ("enforced_w", "outcome", "detail"),
    [
        (699, Outcome.WARN, "a cap below the card's default; floors of the SKU file are scaled to it"),
        (699.5, Outcome.PASS, ""),
        (700, Outcome.PASS, ""),
        (700.5, Outcome.PASS, ""),
        (750, Outcome.PASS, "above the card's default"),
    ],
)
def test_without_a_range_a_cap_under_the_default_only_warns(bench, enforced_w, outcome, detail):
    bench.gpu(GPU, power_limit_w=enforced_w)
    verdict = bench.verdict(LIMIT, GPU)
    assert (verdict.outcome, verdict.detail, verdict.limit) == (outcome, detail, 700)
    assert verdict.limit_source == "NVML's default power limit"


@pytest.mark.parametrize("default_w", [None, 0.0])
def test_the_sku_file_stands_in_for_a_default_that_nvml_does_not_report(bench, default_w):
    bench.gpu(GPU, power_limit_default_w=default_w, power_limit_w=650)
    verdict = bench.verdict(LIMIT, GPU)
    assert (verdict.outcome, verdict.limit, verdict.limit_source) == (
        Outcome.WARN,
        700,
        "hwprofiles/gpus/h200.toml",
    )
    bench.rig(nodes=[{"name": "pc1", "gpus": [{"sku": "unknown", "workers": 2, "memory_gib": 141}]}])
    verdict = bench.verdict(LIMIT, GPU)
    assert (verdict.outcome, verdict.measured) == (Outcome.NO_LIMIT, 650)


def test_a_card_whose_driver_reports_no_power_is_not_asked_for_its_limit(bench):
    silent = bench.loaded.skus["h200"].model_copy(update={"unsupported_sensors": ("power",)})
    bench.loaded = replace(bench.loaded, skus={**bench.loaded.skus, "h200": silent})
    bench.gpu(GPU, power_limit_w=None)
    assert bench.verdict(LIMIT, GPU).outcome is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("limit_w", "outcome"), [(500, Outcome.WARN), (349.5, Outcome.WARN), (349.4, Outcome.FAIL)]
)
def test_a_cap_under_half_of_the_default_fails_with_the_command_that_lifts_it(bench, limit_w, outcome):
    bench.gpu(GPU, power_limit_w=float(limit_w), power_limit_default_w=700.0, index=3)
    bench.samples(GPU, power_limit_w=None)
    verdict = bench.verdict(LIMIT, GPU)
    assert (verdict.outcome, verdict.remedy) == (
        outcome,
        "restore it on pc1 with `nvidia-smi -i 3 -pl 700`; if it is intended, state "
        f"`limits.power_limit_w = [{limit_w:.0f}, {limit_w:.0f}]`",
    )


def test_a_cap_that_the_profile_states_is_no_fault_however_low(bench):
    bench.limits(power_limit_w=(200.0, 300.0))
    bench.gpu(GPU, power_limit_w=250)
    assert bench.verdict(LIMIT, GPU).outcome is Outcome.PASS


def test_a_limit_that_falls_during_the_run_is_judged_by_its_lowest(bench):
    bench.samples(GPU, power_limit_w=700.0)
    assert bench.verdict(LIMIT, GPU).outcome is Outcome.PASS
    bench.samples(GPU, 45, 50, power_limit_w=550.0)
    bench.samples(GPU, 50, 60, power_limit_w=400.0)
    verdict = bench.verdict(LIMIT, GPU)
    assert (verdict.outcome, verdict.measured) == (Outcome.WARN, 400)
    assert "between 400 and 700 W during the run" in verdict.detail
    bench.limits(power_limit_w=(500.0, 700.0))
    assert bench.verdict(LIMIT, GPU).outcome is Outcome.FAIL


@pytest.mark.parametrize("to_s", [50.05, 136.0])
@pytest.mark.parametrize("watts", [0.0, -700.0, 700_000.0])
@pytest.mark.parametrize("stated", [None, (500.0, 700.0)])
def test_a_limit_that_no_card_can_have_is_no_setting(bench, to_s, watts, stated):
    """Once, or in every sample: the sensor is at fault, and it says nothing about the card."""
    bench.limits(power_limit_w=stated)
    bench.samples(GPU, power_limit_w=700.0)
    bench.samples(GPU, 50 if to_s < 60 else 0, to_s, power_limit_w=watts)
    verdict = bench.verdict(LIMIT, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert re.search(rf"the power limit reads {watts:g} W at t=\d+ s, which is not possible", verdict.detail)
    assert Outcome.FAIL not in {one.outcome for one in bench.verdicts()}


def test_of_limits_that_all_are_in_the_range_the_lowest_is_shown(bench):
    bench.limits(power_limit_w=(400.0, 800.0))
    bench.samples(GPU, power_limit_w=700.0)
    bench.samples(GPU, 45, 50, power_limit_w=550.0)
    verdict = bench.verdict(LIMIT, GPU)
    assert (verdict.outcome, verdict.measured) == (Outcome.PASS, 550)


def test_the_draw_is_held_against_the_limit_of_its_own_moment(bench):
    """A laptop whose limit goes up while it draws more is no fault; the same draw under the old one is."""
    bench.samples(GPU, power_limit_w=700.0)
    bench.samples(GPU, 26, 72, power_limit_w=550.0)
    assert bench.verdict(DRAW, GPU).outcome is Outcome.FAIL
    bench.samples(GPU, 26, 72, power_limit_w=650.0)
    assert bench.verdict(DRAW, GPU).outcome is Outcome.PASS


def test_the_stretch_that_is_furthest_over_its_own_limit_is_judged_however_few_watts_it_drew(bench):
    bench.samples(GPU, power_limit_w=700.0, power_average_w=lambda one: 690 + one.t_s % 2)
    bench.samples(GPU, 49, 72, power_limit_w=550.0, power_average_w=lambda one: 600 + one.t_s % 2)
    verdict = bench.verdict(DRAW, GPU)
    assert (verdict.outcome, verdict.limit) == (Outcome.FAIL, pytest.approx(550 * 1.05))
    assert verdict.measured == pytest.approx(601, abs=1)


@pytest.mark.parametrize("criterion", [DRAW, LIMIT])
def test_a_card_without_sku_and_limit_need_not_keep_one(bench, criterion):
    bench.rig(nodes=[{"name": "pc1", "gpus": [{"sku": "unknown", "workers": 2, "memory_gib": 141}]}])
    bench.gpu(GPU, sku=None, power_limit_w=None)
    assert bench.verdict(criterion, GPU).outcome is Outcome.NOT_MEASURED  # it has a default limit
    bench.gpu(GPU, power_limit_default_w=None)
    bench.samples(GPU, power_limit_w=None)
    assert bench.verdict(criterion, GPU).outcome is Outcome.NOT_APPLICABLE
    bench.event("nvml_error", GPU, "nvmlDeviceGetFieldValues: unknown error")
    assert bench.verdict(criterion, GPU).outcome is Outcome.NOT_MEASURED


@pytest.mark.parametrize(
    ("from_s", "to_s", "stage"), [(5, 25, "gemm"), (72, 92, "training"), (114, 134, "sharing")]
)
def test_a_draw_over_the_limit_in_any_stage_fails(bench, from_s, to_s, stage):
    bench.samples(GPU, from_s, to_s, power_average_w=lambda sample: 745 + sample.t_s % 3)
    assert bench.said(DRAW, GPU) == (Outcome.FAIL, f"in the {stage} stage")


@pytest.mark.parametrize(("seconds", "outcome"), [(1.0, Outcome.PASS), (2.0, Outcome.FAIL)])
def test_a_card_whose_average_is_instant_goes_over_its_limit_for_a_second(bench, seconds, outcome):
    """Of 1 s at 760 W beside 1.5 s at 690 W the mean is 718 W, of two such seconds 729 W and of 3 s 760 W."""
    bench.samples(GPU, 72, 92, power_average_w=lambda one: 690 + one.t_s % 1 / 10)
    load = load_of(Evidence(bench.recording, bench.loaded).device(GPU), "training")
    short = next(one for one in load.stretches if one.length_s < 2.0)
    to_s = short.to_s if seconds == 1.0 else 92
    bench.samples(GPU, short.from_s, to_s, power_average_w=lambda one: 760 + one.t_s % 1 / 10)
    assert bench.verdict(DRAW, GPU).outcome is outcome


@pytest.mark.parametrize("known", ["at the start", "read"])
@pytest.mark.parametrize(("limit_w", "outcome"), [(69.0, Outcome.NOT_MEASURED), (71.0, Outcome.FAIL)])
def test_no_card_has_a_limit_under_a_tenth_of_its_default(bench, known, limit_w, outcome):
    bench.gpu(GPU, power_limit_default_w=700.0)
    if known == "read":
        bench.samples(GPU, power_limit_w=limit_w)
    else:
        bench.gpu(GPU, power_limit_w=limit_w)
    assert bench.verdict("power.limit", GPU).outcome is outcome
