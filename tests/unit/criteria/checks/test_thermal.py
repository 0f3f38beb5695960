from dataclasses import replace

import pytest

from rigproof.criteria.checks.thermal import _sustained
from rigproof.criteria.evidence.series import Readings
from rigproof.records.measurements import Stage
from rigproof.records.verdict import Outcome, sentence

GPU = "pc1/gpu0"
CORE, MEMORY, THROTTLE = "thermal.core_temperature", "thermal.memory_temperature", "thermal.throttle"


def test_reasons_below_zero_are_no_slowdown_but_a_misreading(bench):
    bench.samples(GPU, 40, 60, clock_event_reasons=-1)
    verdict = bench.verdict(THROTTLE, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail.startswith("sustained: the clock-event reason reads -1 ")


@pytest.mark.parametrize(("hottest_c", "outcome"), [(80, Outcome.PASS), (80.5, Outcome.FAIL)])
def test_the_core_may_reach_its_limit_but_not_pass_it(bench, hottest_c, outcome):
    bench.limits(core_temperature_c=80)
    bench.samples(GPU, 50, 51, core_temperature_c=hottest_c)
    assert bench.verdict(CORE, GPU).outcome is outcome
    bench.samples(GPU, 20.05, 61.05, core_temperature_c=84)
    assert sentence(bench.verdict(CORE, GPU)) == (
        "pc1/gpu0 thermal.core_temperature: 84 °C, limit ≤ 80 °C (from t=20 s, 41 s long). "
        "Clean the heatsink or raise the fan curve."
    )


def test_a_reading_that_is_not_a_number_is_no_measurement(bench):
    bench.samples(GPU, 50, 50.05, core_temperature_c=float("inf"))
    assert bench.verdict(CORE, GPU).outcome is Outcome.NOT_MEASURED


@pytest.mark.parametrize(
    "left", [{"status": "failed", "loaded_from_s": None}, {"status": "interrupted", "end_s": None}]
)
def test_a_stage_that_was_broken_off_can_fail_but_not_pass(bench, left):
    bench.stage("sustained", loaded_to_s=None, **left)
    assert bench.verdict(CORE, GPU).outcome is Outcome.NOT_MEASURED
    bench.samples(GPU, 10, 11, core_temperature_c=90)
    verdict = bench.verdict(CORE, GPU)
    assert (verdict.outcome, verdict.measured, round(verdict.from_s)) == (Outcome.FAIL, 90, 10)


@pytest.mark.parametrize(
    ("limit_c", "gpu_max_c", "slowdown_c", "expected"),
    [
        (80, 87, 89, (80, "hwprofiles/rigs/two-nodes.toml")),
        (None, 87, 89, (87, "NVML GPU_MAX")),
        (None, None, 89, (89, "NVML SLOWDOWN")),
        (None, None, None, (87, "hwprofiles/gpus/h200.toml")),
        (None, 0, -1, (87, "hwprofiles/gpus/h200.toml")),
    ],
)
def test_the_limit_is_the_profiles_else_what_nvml_says_else_the_sku_files(
    bench, limit_c, gpu_max_c, slowdown_c, expected
):
    bench.limits(core_temperature_c=limit_c)
    bench.gpu(GPU, temperature_gpu_max_c=gpu_max_c, temperature_slowdown_c=slowdown_c)
    verdict = bench.verdict(CORE, GPU)
    assert (verdict.limit, verdict.limit_source) == expected


GUIDE = {"core_temperature_c": 80, "core_temperature_warn_c": 78, "core_temperature_never_c": 83}


@pytest.mark.parametrize(
    ("hottest_c", "length_s", "outcome"),
    [
        (78, 20, Outcome.PASS),
        (79, 20, Outcome.WARN),
        (80, 20, Outcome.WARN),
        (81, 20, Outcome.FAIL),  # sustained
        (83, 1, Outcome.PASS),  # a spike, its mean of 5 s under 78
        (84, 0.05, Outcome.FAIL),  # never
    ],
)
def test_a_limit_that_is_never_passed_leaves_the_other_to_what_is_sustained(
    bench, hottest_c, length_s, outcome
):
    bench.limits(**GUIDE)
    bench.samples(GPU, 40, 40 + length_s, core_temperature_c=hottest_c)
    assert bench.verdict(CORE, GPU).outcome is outcome


def test_the_sentence_distinguishes_the_sustained_from_the_forbidden_and_the_warning(bench):
    bench.limits(**GUIDE)
    bench.samples(GPU, 40, 60, core_temperature_c=79)
    early = bench.verdict(CORE, GPU)
    assert (early.measured, early.limit) == (79, 78)
    assert "an early warning. Clean the heatsink" in sentence(early)
    assert early.from_s == pytest.approx(45, abs=1)
    bench.samples(GPU, 40, 60, core_temperature_c=82)
    sustained = bench.verdict(CORE, GPU)
    assert (sustained.measured, sustained.limit) == (82, 80)
    bench.samples(GPU, 50, 50.05, core_temperature_c=90)
    never = bench.verdict(CORE, GPU)
    assert (never.measured, never.limit, never.from_s) == (90, 83, pytest.approx(50))
    assert "no reading may exceed it" in sentence(never)


@pytest.mark.parametrize(("hottest_c", "outcome"), [(79, Outcome.WARN), (81, Outcome.FAIL)])
def test_without_a_limit_that_is_never_passed_one_reading_is_enough(bench, hottest_c, outcome):
    bench.limits(core_temperature_c=80, core_temperature_warn_c=78)
    bench.samples(GPU, 40, 40.05, core_temperature_c=hottest_c)
    assert bench.verdict(CORE, GPU).outcome is outcome


def test_an_early_warning_needs_a_measurement_and_the_forbidden_does_not(bench):
    bench.limits(**GUIDE)
    bench.samples(GPU, 40, 60, core_temperature_c=79)
    bench.stage("sustained", status="interrupted", loaded_to_s=None, end_s=None)
    assert bench.verdict(CORE, GPU).outcome is Outcome.NOT_MEASURED
    bench.samples(GPU, 50, 50.05, core_temperature_c=84)
    assert bench.verdict(CORE, GPU).outcome is Outcome.FAIL


def test_a_run_that_is_shorter_than_what_sustained_means_has_one_mean(bench):
    bench.limits(**GUIDE)
    bench.samples(GPU, 28, 33, core_temperature_c=82)
    kept = [one for one in bench.recording.gpu_samples if 30 <= one.t_s <= 33]
    bench.recording.gpu_samples = kept
    verdict = bench.verdict(CORE, GPU)
    assert (verdict.measured, verdict.from_s, verdict.length_s) == (82, kept[-1].t_s, pytest.approx(0.1))


def test_a_reading_stands_for_two_steps_of_the_grid_at_most_and_the_last_one_for_one(bench):
    bench.samples(GPU, 50, 50.55, core_temperature_c=95)
    bench.recording.gpu_samples = [
        one for one in bench.recording.gpu_samples if one.subject != GPU or not 50.55 < one.t_s < 51.5
    ]
    number = sum(one.core_temperature_c == 95 for one in bench.recording.gpu_samples)
    assert bench.verdict(CORE, GPU).length_s == pytest.approx(0.1 * (number + 1))
    times_s = [one.t_s for one in bench.recording.gpu_samples if one.subject == GPU]
    bench.samples(GPU, times_s[-3], core_temperature_c=95)
    assert bench.verdict(CORE, GPU).length_s == pytest.approx(0.1 * (number + 1) + 0.3)


def test_a_card_without_any_known_limit_gets_no_limit(bench):
    bench.rig(nodes=[{"name": "pc1", "gpus": [{"sku": "unknown", "workers": 2, "memory_gib": 141}]}])
    bench.gpu(GPU, temperature_gpu_max_c=None, sku=None)
    verdict = bench.verdict(CORE, GPU)
    assert (verdict.outcome, verdict.measured) == (Outcome.NO_LIMIT, 66)


def test_no_samples_of_the_core_are_no_measurement(bench):
    bench.samples(GPU, core_temperature_c=None)
    verdict = bench.verdict(CORE, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail == (
        "no core temperature was read under load; check `nvidia-smi -q -d TEMPERATURE` on pc1; a sensor that "
        "its driver does not have is listed in unsupported_sensors of hwprofiles/gpus/h200.toml"
    )


@pytest.mark.parametrize(("share", "outcome"), [(0.19, Outcome.PASS), (0.21, Outcome.NOT_MEASURED)])
def test_fewer_than_80_percent_of_the_samples_due_are_no_measurement(bench, share, outcome):
    def lacking(sample):
        return None if sample.t_s % 1 < share else sample.core_temperature_c

    bench.samples(GPU, core_temperature_c=lacking)
    kept = [one for one in bench.recording.gpu_samples if one.t_s % 1 >= share]
    bench.recording.gpu_samples = [replace(one, t_s=one.t_s) for one in kept]
    bench.rig(sampling={"rate_hz": 10})
    assert bench.verdict(CORE, GPU).outcome is outcome


def test_a_gap_while_a_card_works_on_after_another_is_done_is_one_too(bench):
    bench.stage("gemm", loaded_to_s=15.0)
    bench.samples(GPU, 18, 24, core_temperature_c=None)
    verdict = bench.verdict(CORE, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert "for 6.2 s under load, from t=18 s on" in verdict.detail


@pytest.mark.parametrize("stage", ["gemm", "sustained", "training", "feeding", "sharing"])
@pytest.mark.parametrize(("gap_s", "outcome"), [(1.9, Outcome.PASS), (2.3, Outcome.NOT_MEASURED)])
def test_two_seconds_without_a_reading_in_any_stage_are_a_gap(bench, stage, gap_s, outcome):
    end_s = bench.recording.stages[stage].loaded_to_s
    bench.samples(GPU, end_s - gap_s, end_s, core_temperature_c=None)
    verdict = bench.verdict(CORE, GPU)
    assert verdict.outcome is outcome
    assert outcome is Outcome.PASS or f"from t={end_s - gap_s - 0.1:.0f} s on" in verdict.detail


def test_a_temperature_that_has_not_moved_since_before_the_load_is_frozen(bench):
    bench.samples(GPU, core_temperature_c=41)
    assert bench.said(CORE, GPU) == (
        Outcome.NOT_MEASURED,
        "the core temperature reads 41 °C during the whole run: the sensor is frozen",
    )


def test_a_temperature_that_is_steady_under_load_alone_is_believed(bench):
    bench.samples(GPU, 25, core_temperature_c=63)
    assert bench.verdict(CORE, GPU).outcome is Outcome.PASS


@pytest.mark.parametrize(("from_s", "to_s"), [(25, 70.0), (28, 45.0)], ids=["standard", "quick"])
def test_readings_that_all_stand_still_are_frozen(bench, from_s, to_s):
    bench.stage("sustained", loaded_to_s=to_s)
    bench.samples(GPU, from_s, core_temperature_c=63, power_w=600.0, sm_clock_mhz=1900)
    for criterion in (CORE, MEMORY, "clock.ratio", "power.draw", "activity.gpu_active"):
        assert bench.verdict(criterion, GPU).outcome is Outcome.NOT_MEASURED, criterion


@pytest.mark.parametrize(
    ("sku", "limit_c", "expected"),
    [
        ("h200", 95, Outcome.NOT_MEASURED),
        ("rtx-3090", 95, Outcome.NOT_APPLICABLE),  # its file lists it as unsupported
        ("unknown", 95, Outcome.NOT_MEASURED),  # NVML knows its limit, so there is a sensor
        ("unknown", None, Outcome.NOT_APPLICABLE),
    ],
)
def test_which_cards_have_to_give_a_memory_temperature(bench, sku, limit_c, expected):
    bench.rig(nodes=[{"name": "pc1", "gpus": [{"sku": sku, "workers": 2, "memory_gib": 141}]}])
    bench.gpu(GPU, temperature_memory_max_c=limit_c)
    bench.samples(GPU, memory_temperature_c=None)
    assert bench.verdict(MEMORY, GPU).outcome is expected


@pytest.mark.parametrize(
    ("reasons", "outcome"),
    [
        (0x0, Outcome.PASS),
        (0x1, Outcome.PASS),
        (0x4, Outcome.PASS),
        (0x8, Outcome.FAIL),
        (0x20, Outcome.FAIL),
        (0x40, Outcome.FAIL),
        (0x80, Outcome.FAIL),
        (0x4 | 0x20, Outcome.FAIL),
        (0x100, Outcome.PASS),
    ],
)
def test_heat_slowdown_and_power_brake_fail_but_the_power_cap_does_not(bench, reasons, outcome):
    bench.samples(GPU, 40, 50, clock_event_reasons=reasons)
    assert bench.verdict(THROTTLE, GPU).outcome is outcome


@pytest.mark.parametrize(
    ("stretches", "outcome"),
    [
        ([(40.0, 40.0)], Outcome.WARN),  # a single reading
        ([(40.0, 40.3)], Outcome.WARN),  # 4 of 451
        ([(40.0, 40.5)], Outcome.FAIL),  # 6 of 451: over 1 %
        ([(40.0, 41.1)], Outcome.FAIL),  # a long one
        ([(40.0, 40.0), (60.0, 60.0)], Outcome.FAIL),  # a second one
        ([(40.0, 40.0), (80.0, 80.0)], Outcome.FAIL),  # in another stage
    ],
)
def test_one_short_slowdown_warns_and_two_or_a_long_one_fail(bench, stretches, outcome):
    for from_s, to_s in stretches:
        bench.samples(GPU, from_s - 0.05, to_s + 0.05, clock_event_reasons=0x8)
    assert bench.verdict(THROTTLE, GPU).outcome is outcome


@pytest.mark.parametrize(("to_s", "outcome"), [(40.1, Outcome.WARN), (40.2, Outcome.FAIL)])
def test_two_samples_of_a_short_stage_are_no_share(bench, to_s, outcome):
    bench.limits(throttle_share=0.001)
    bench.samples(GPU, 39.95, to_s + 0.05, clock_event_reasons=0x8)
    assert bench.verdict(THROTTLE, GPU).outcome is outcome


@pytest.mark.parametrize(("share", "outcome"), [(5 / 451, Outcome.WARN), (4.9 / 451, Outcome.FAIL)])
def test_where_several_are_allowed_their_share_counts(bench, share, outcome):
    bench.limits(throttle_events=2, throttle_share=share)
    for from_s, to_s in ((40.0, 40.2), (60.0, 60.1)):  # 3 and 2 samples
        bench.samples(GPU, from_s - 0.05, to_s + 0.05, clock_event_reasons=0x8)
    assert bench.verdict(THROTTLE, GPU).outcome is outcome


@pytest.mark.parametrize(("first_s", "outcome"), [(None, Outcome.WARN), (45.0, Outcome.FAIL)])
def test_a_slowdown_in_each_attempt_at_a_stage_makes_two_in_the_run(bench, first_s, outcome):
    """The earlier attempt took the first half of the stage's time here."""
    stage = bench.recording.stages["sustained"]
    half_s = 55.0
    bench.recording.earlier_attempts["sustained"] = (replace(stage, end_s=half_s, loaded_to_s=half_s),)
    bench.stage("sustained", start_s=half_s, loaded_from_s=half_s)
    for moment_s in filter(None, (first_s, 65.0)):
        bench.samples(GPU, moment_s - 0.05, moment_s + 0.05, clock_event_reasons=0x8)
    verdict = bench.verdict(THROTTLE, GPU)
    assert verdict.outcome is outcome
    assert (", 2 times in the run" in verdict.detail) is (outcome is Outcome.FAIL)


def test_a_slowdown_of_more_than_a_second_is_no_short_one_however_long_the_run(bench):
    bench.limits(throttle_share=0.5)
    bench.samples(GPU, 40.05, 41.05, clock_event_reasons=0x20)
    assert bench.verdict(THROTTLE, GPU).outcome is Outcome.WARN
    bench.samples(GPU, 40.05, 41.25, clock_event_reasons=0x20)
    verdict = bench.verdict(THROTTLE, GPU)
    assert (verdict.outcome, verdict.limit) == (Outcome.FAIL, None)  # its share of the samples is allowed
    assert verdict.detail.endswith("; allowed: 1 slowdown of 1 s, the longest was 1.1 s")


@pytest.mark.parametrize("stage", ["gemm", "sustained", "training", "feeding", "sharing"])
def test_a_slowdown_in_any_stage_fails_set_up_included(bench, stage):
    window = bench.recording.stages[stage]
    bench.samples(GPU, window.start_s, window.start_s + 1.5, clock_event_reasons=0x44)
    verdict = bench.verdict(THROTTLE, GPU)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.detail.endswith(f"samples of {stage}")


def test_throttling_names_its_reasons(bench):
    bench.samples(GPU, 40, 45.05, clock_event_reasons=0x40 | 0x8)
    verdict = bench.verdict(THROTTLE, GPU)
    assert verdict.detail == "HW slowdown (0x8), HW thermal slowdown (0x40) in 51 of 451 samples of sustained"


@pytest.mark.parametrize(("changes", "outcome"), [(0x40, Outcome.FAIL), (None, Outcome.NOT_MEASURED)])
def test_a_card_beside_a_slowed_one_is_not_slowed(bench, changes, outcome):
    bench.samples(GPU, 40, 60, clock_event_reasons=changes)
    found = {one.subject: one.outcome for one in bench.verdicts() if one.criterion == THROTTLE}
    assert found[GPU] is outcome
    assert found["pc2/gpu0"] is Outcome.PASS


@pytest.mark.parametrize(
    ("counted", "unseen", "detail"),
    [
        ({}, False, ""),
        ({"power_capped_s": 61.0}, False, "power cap 61 s"),
        ({"hw_thermal_s": 0.4}, True, "HW thermal slowdown 0.40 s"),
        ({"hw_thermal_s": 0.1}, False, "HW thermal slowdown 0.10 s"),
        ({"power_brake_s": 3.0}, True, "HW power brake 3 s"),
        (  # together longer than between two samples
            {"hw_thermal_s": 0.06, "power_brake_s": 0.06},
            True,
            "HW thermal slowdown 0.06 s, HW power brake 0.06 s",
        ),
    ],
)
def test_what_nvml_counted_beside_the_samples(bench, counted, unseen, detail):
    bench.counters(GPU, "after", **counted)
    warned = (Outcome.WARN, f"NVML counted {detail}, which no sample shows")
    assert bench.said(THROTTLE, GPU) == (warned if unseen else (Outcome.PASS, detail))
    steps = {"hw_thermal_s": "cool the card", "power_brake_s": "check the card's power plugs"}
    if unseen and len(counted) == 1:
        assert bench.verdict(THROTTLE, GPU).remedy.startswith(steps[next(iter(counted))])


def test_a_driver_that_counts_nothing_is_judged_by_its_samples(bench):
    none = dict.fromkeys(("power_capped_s", "sync_boost_s", "sw_thermal_s", "hw_thermal_s", "power_brake_s"))
    for moment in ("before", "after"):
        bench.counters(GPU, moment, **none)
    bench.samples(GPU, 30, 59.95, clock_event_reasons=0x4)
    assert bench.said(THROTTLE, GPU) == (Outcome.PASS, "power cap 30 s")


@pytest.mark.parametrize("name", ["transfer", "ram"])
@pytest.mark.parametrize(
    ("length_s", "reasons", "outcome"),
    [(0, 0, Outcome.PASS), (0.15, 8, Outcome.WARN), (1.5, 8, Outcome.FAIL), (2, None, Outcome.NOT_MEASURED)],
)
def test_a_slowdown_while_the_card_rests_is_one_too(bench, name, length_s, reasons, outcome):
    """A stage in which its link or its host is measured."""
    bench.recording.add(Stage(name, 134.0, 136.0, "finished", ("pc1/gpu0#0",), 134.5, 136.0))
    bench.samples(GPU, 136.0 - length_s, clock_event_reasons=reasons)
    verdict = bench.verdict(THROTTLE, GPU)
    assert verdict.outcome is outcome
    assert all((part in verdict.detail) is bool(reasons) for part in ("HW slowdown (0x8)", name))


def test_the_stage_with_the_largest_share_of_slowed_samples_is_shown_since_the_first_of_all(bench):
    bench.samples(GPU, 10.0, 10.25, clock_event_reasons=0x40)  # 3 of 201
    bench.samples(GPU, 40.0, 40.35, clock_event_reasons=0x80)  # 4 of 451
    verdict = bench.verdict(THROTTLE, GPU)
    assert (verdict.outcome, verdict.from_s) == (Outcome.FAIL, 10.0)
    assert verdict.measured == pytest.approx(100 * 3 / 201)
    assert verdict.detail.startswith(
        "HW thermal slowdown (0x40) in 3 of 201 samples of gemm, 2 times in the run"
    )


def test_what_is_sustained_is_the_mean_of_the_last_five_seconds():
    """One reading a second: the first mean is of 0 to 5 s, the next one of 1 to 6 s."""
    pairs = Readings.of_pairs(
        [(float(t_s), value) for t_s, value in enumerate((10, 20, 30, 40, 50, 60, 130))]
    )
    assert list(_sustained(pairs)) == [(5.0, 35.0), (6.0, 55.0)]
    short = Readings.of_pairs([(0.0, 10.0), (4.9, 30.0)])
    assert list(_sustained(short)) == [(4.9, 20.0)]


@pytest.mark.parametrize(
    ("longest_s", "outcome", "detail"),
    [
        (0.35, Outcome.WARN, "SW thermal slowdown (0x20) 2 times, in 2 of 201 samples of gemm"),
        (
            0.25,
            Outcome.FAIL,
            "SW thermal slowdown (0x20) in 2 of 201 samples of gemm, 2 times in the run; allowed: "
            "2 slowdowns of 0.25 s, the longest was 0.3 s",
        ),
    ],
)
def test_of_two_slowdowns_the_first_and_the_longest_are_told(bench, longest_s, outcome, detail):
    bench.limits(throttle_events=2, throttle_event_s=longest_s, throttle_share=0.5)
    for from_s, to_s in ((40.0, 40.3), (12.0, 12.1)):  # of the gemm stage, which is earlier
        bench.samples(GPU, from_s - 0.05, to_s + 0.05, clock_event_reasons=0x20)
    verdict = bench.verdict(THROTTLE, GPU)
    assert (verdict.outcome, verdict.detail) == (outcome, detail)
    assert verdict.from_s == pytest.approx(12.0)


@pytest.mark.parametrize("name", ["hw_thermal_s", "sw_thermal_s", "power_capped_s"])
def test_a_counter_that_goes_back_counts_nothing(bench, name):
    bench.counters(GPU, "before", **{name: 5.0})
    bench.counters(GPU, "after", **{name: 4.0})
    verdict = bench.verdict("thermal.throttle", GPU)
    assert (verdict.outcome, name in verdict.detail) == (Outcome.NOT_MEASURED, True)
