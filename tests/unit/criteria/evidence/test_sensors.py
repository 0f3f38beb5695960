"""Readings that do not agree with the rest are not measured, in any stage."""

from dataclasses import replace

import pytest

from rigproof.judging.laps import judge_all
from rigproof.records.verdict import Outcome
from rigproof.run.simulated.trial import simulated_recording
from support.simulated import rig_named

GPU = "pc1/gpu0"
DRAW, ACTIVE, CORE, CLOCK = "power.draw", "activity.gpu_active", "thermal.core_temperature", "clock.ratio"
NOT_MEASURED, PASS = Outcome.NOT_MEASURED, Outcome.PASS


def with_energy(bench, scale=1.0, from_s=0.0):
    """An energy counter that integrates the instant power, times `scale` from a moment on."""
    total_j, found = 0.0, {}
    for one in bench.recording.gpu_samples:
        if one.subject == GPU:
            total_j += 0.1 * (one.power_w or 0.0) * (scale if one.t_s >= from_s else 1.0)
            found[one.t_s] = total_j
    bench.samples(GPU, energy_j=lambda one: found[one.t_s])


def outcome(bench, criterion):
    return bench.verdict(criterion, GPU).outcome


@pytest.mark.parametrize("from_s", [8, 35, 75, 100, 116])
def test_power_that_stands_still_for_three_seconds_while_energy_goes_on_is_frozen(bench, from_s):
    with_energy(bench)
    assert (outcome(bench, DRAW), outcome(bench, ACTIVE)) == (PASS, PASS)
    bench.samples(GPU, from_s, from_s + 3.2, power_w=550.0, power_average_w=550.0)
    verdict = bench.verdict(DRAW, GPU)
    assert verdict.outcome is NOT_MEASURED
    assert "550 W for 3 s under load, though its energy counter says otherwise" in verdict.detail
    assert outcome(bench, ACTIVE) is NOT_MEASURED


def test_power_that_stands_still_for_less_than_three_seconds_is_believed(bench):
    with_energy(bench)
    bench.samples(GPU, 35, 37.55, power_w=550.0, power_average_w=550.0)
    assert (outcome(bench, DRAW), outcome(bench, ACTIVE)) == (PASS, PASS)


def test_three_readings_of_one_power_in_three_seconds_are_enough(bench):
    with_energy(bench)
    bench.samples(GPU, 34.95, 38.25, power_w=None, power_average_w=None)
    for t_s in (35.0, 36.6, 38.2):
        bench.samples(GPU, t_s - 0.05, t_s + 0.05, power_w=550.0, power_average_w=550.0)
    assert "550 W for 3 s under load, though" in bench.verdict(DRAW, GPU).detail


def test_power_that_stands_still_as_its_energy_says_is_believed_for_ten_seconds(bench):
    bench.samples(GPU, 35, 39, power_w=640.0, power_average_w=640.0)
    with_energy(bench)
    assert outcome(bench, DRAW) is PASS
    bench.samples(GPU, 35, 45.2, power_w=640.0, power_average_w=640.0)
    with_energy(bench)
    assert outcome(bench, DRAW) is NOT_MEASURED


@pytest.mark.parametrize(("share", "expected"), [(0.96, PASS), (0.935, NOT_MEASURED)])
def test_power_that_stands_still_is_frozen_where_energy_says_a_twentieth_more(bench, share, expected):
    with_energy(bench)
    drawn_w = [
        one.power_w for one in bench.recording.gpu_samples if one.subject == GPU and 35 <= one.t_s <= 39
    ]
    still_w = share * sum(drawn_w) / len(drawn_w)
    bench.samples(GPU, 35, 39, power_w=still_w, power_average_w=still_w)
    assert outcome(bench, DRAW) is expected


def test_samples_of_one_moment_are_no_mean_power(bench):
    """Twenty of one moment, where the energy counter was read again: no time passed between them."""
    with_energy(bench)
    bench.recording.gpu_samples = [
        replace(one, t_s=round(one.t_s, -1)) if one.t_s > 80 else one for one in bench.recording.gpu_samples
    ]
    verdict = bench.verdict(DRAW, GPU)
    assert (verdict.outcome, "judging it failed" in verdict.detail) == (NOT_MEASURED, False)


def test_without_an_energy_counter_power_may_stand_still_for_ten_seconds(bench):
    bench.samples(GPU, 35, 44, power_w=550.0, power_average_w=550.0)
    assert outcome(bench, DRAW) is PASS


@pytest.mark.parametrize(("scale", "expected"), [(1.0, PASS), (0.92, PASS), (0.88, NOT_MEASURED)])
def test_power_and_energy_agree_within_a_tenth(bench, scale, expected):
    with_energy(bench, scale)
    assert outcome(bench, ACTIVE) is expected


def test_they_have_to_agree_at_the_end_of_the_load_too(bench):
    with_energy(bench, 1.2, from_s=58)
    verdict = bench.verdict(ACTIVE, GPU)
    assert verdict.outcome is NOT_MEASURED
    assert "by the energy counter" in verdict.detail


@pytest.mark.parametrize(
    ("criterion", "field", "value"),
    [
        (DRAW, "power_average_w", 9999.0),
        (ACTIVE, "power_w", 9999.0),
        (CLOCK, "sm_clock_mhz", 9999),
        ("thermal.memory_temperature", "memory_temperature_c", -5),
        ("feeding.idle_gaps", "utilization_percent", 250),
    ],
)
def test_a_reading_that_is_not_possible_is_none(bench, criterion, field, value):
    bench.samples(GPU, 99.95, 100.15, **{field: value})
    verdict = bench.verdict(criterion, GPU)
    assert verdict.outcome is NOT_MEASURED
    assert "which is not possible" in verdict.detail


def test_a_rest_of_less_than_ten_seconds_has_to_agree_too(bench):
    """39 s of measured work are three blocks of 13 s: from 62 s on are 8 of the last one."""
    with_energy(bench, 1.2, from_s=62)
    verdict = bench.verdict(ACTIVE, GPU)
    assert verdict.outcome is NOT_MEASURED
    assert verdict.detail.startswith("sustained: from t=57 s the power reads 630 W")


@pytest.mark.parametrize("slope", [0, -1])
def test_an_energy_counter_that_counts_no_more_is_doubted(bench, slope):
    with_energy(bench)
    stood_j = next(one.energy_j for one in bench.recording.gpu_samples.of(GPU) if one.t_s >= 40)
    bench.samples(GPU, 40, energy_j=lambda one: stood_j + slope * (one.energy_j - stood_j))
    assert "by the energy counter it was " in bench.verdict(ACTIVE, GPU).detail
    assert (outcome(bench, DRAW), outcome(bench, ACTIVE)) == (NOT_MEASURED, NOT_MEASURED)


@pytest.mark.parametrize("energy_j", [0.0, 123.4])
def test_an_energy_counter_that_never_counted_says_nothing(bench, energy_j):
    bench.samples(GPU, energy_j=energy_j)
    assert (outcome(bench, DRAW), outcome(bench, ACTIVE)) == (PASS, PASS)


@pytest.mark.parametrize(
    ("at_s", "value", "expected"),
    [
        (
            8.0,
            151,
            "gemm: the core temperature reads 151 °C at t=8 s, which is not possible (at most 150 °C)",
        ),
        (50.0, -1, "sustained: the core temperature reads -1 °C at t=50 s, which is not possible"),
        (71.5, -1, "sustained: the core temperature reads -1 °C at t=72 s, which is not possible"),
        (1.0, -1, "the core temperature reads -1 °C at t=1 s, which is not possible"),
    ],
)
def test_what_is_not_possible_is_reported_with_its_stage_and_its_moment(bench, at_s, value, expected):
    bench.samples(GPU, at_s - 0.04, at_s + 0.04, core_temperature_c=value)
    assert bench.verdict(CORE, GPU).detail == expected


@pytest.mark.parametrize("value", [1, 150])
def test_the_ends_of_what_is_possible_are(bench, value):
    bench.samples(GPU, 50, 50.15, core_temperature_c=value)
    assert "not possible" not in bench.verdict(CORE, GPU).detail


@pytest.mark.parametrize("share", [0.19, 0.5])
def test_the_last_fifth_of_a_stage_without_telemetry_is_a_gap(bench, share):
    end_s = 70.0
    bench.recording.gpu_samples = [
        one for one in bench.recording.gpu_samples if not end_s - share * 40 < one.t_s <= end_s
    ]
    for criterion in (DRAW, ACTIVE, CORE, CLOCK, "thermal.throttle"):
        assert outcome(bench, criterion) is NOT_MEASURED, criterion


def test_sensors_of_two_cards_that_agree_in_every_digit_are_those_of_one():
    recording = simulated_recording(rig_named("h200-x2"), "quick")
    gpus = ("localhost/gpu0", "localhost/gpu1")

    def judged():
        return {(one.criterion, one.subject): one for one in judge_all(recording)}

    assert judged()[DRAW, gpus[0]].outcome is PASS
    own = [one for one in recording.gpu_samples if one.subject == gpus[0]]
    recording.gpu_samples = own + [replace(one, subject=gpus[1]) for one in own]
    for subject, other in (gpus, gpus[::-1]):
        verdict = judged()[DRAW, subject]
        assert verdict.outcome is NOT_MEASURED
        assert f"every reading of its power is also that of {other}" in verdict.detail


def test_sensors_of_two_cards_that_agree_in_every_digit_of_one_stage_are_those_of_one():
    recording = simulated_recording(rig_named("h200-x2"), "quick")
    gpus = ("localhost/gpu0", "localhost/gpu1")
    span = recording.stages["sustained"]
    read = {one.t_s: one for one in recording.gpu_samples if one.subject == gpus[0]}
    recording.gpu_samples = [
        replace(read[one.t_s], subject=one.subject) if span.start_s <= one.t_s <= span.end_s else one
        for one in recording.gpu_samples
    ]
    verdicts = {(one.criterion, one.subject): one for one in judge_all(recording)}
    for subject, other in (gpus, gpus[::-1]):
        assert verdicts[DRAW, subject].outcome is NOT_MEASURED
        assert f"its power is that of {other} in every digit" in verdicts[DRAW, subject].detail
