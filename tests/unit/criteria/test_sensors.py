"""Readings that do not agree with the rest are not measured, in any stage."""

import pytest

from rigproof.records.verdict import Outcome

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
    assert "550 for 3 s under load, though its energy counter says otherwise" in verdict.detail
    assert outcome(bench, ACTIVE) is NOT_MEASURED


def test_power_that_stands_still_as_its_energy_says_is_believed_for_ten_seconds(bench):
    bench.samples(GPU, 35, 39, power_w=640.0, power_average_w=640.0)
    with_energy(bench)
    assert outcome(bench, DRAW) is PASS
    bench.samples(GPU, 35, 45.2, power_w=640.0, power_average_w=640.0)
    with_energy(bench)
    assert outcome(bench, DRAW) is NOT_MEASURED


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


@pytest.mark.parametrize("field", ["core_temperature_c", "memory_temperature_c"])
def test_a_temperature_that_ignores_a_step_of_power_is_frozen(bench, field):
    criterion = CORE if field.startswith("core") else "thermal.memory_temperature"
    bench.samples(GPU, 26, 72, **{field: 63})
    assert outcome(bench, criterion) is PASS  # constant under constant load
    bench.samples(GPU, 48, power_w=lambda one: one.power_w * 0.6)
    verdict = bench.verdict(criterion, GPU)
    assert verdict.outcome is NOT_MEASURED
    assert "63 for 20 s after the power went from" in verdict.detail


def test_a_temperature_that_follows_a_step_within_twenty_seconds_is_believed(bench):
    bench.samples(GPU, 26, 62, core_temperature_c=63)
    bench.samples(GPU, 48, power_w=lambda one: one.power_w * 0.6)
    assert outcome(bench, CORE) is PASS


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


@pytest.mark.parametrize(("shift_s", "expected"), [(-4.0, NOT_MEASURED), (-1.0, PASS), (4.0, NOT_MEASURED)])
def test_readings_from_another_time_than_the_work_are_none(bench, shift_s, expected):
    """Idle until 6 s, loaded until the last round: the readings' own times moved."""
    mine = [one for one in bench.recording.gpu_samples if one.subject == GPU]
    powers = {round(one.t_s, 1): one.power_w for one in mine}

    def moved(one):
        return powers.get(round(one.t_s - shift_s, 1), 80.0 + one.t_s % 1)

    bench.samples(GPU, 131.2, power_w=lambda one: 80.0 + one.t_s % 1)
    powers |= {key: 80.0 for key in powers if key > 131.2}
    bench.samples(GPU, power_w=moved)
    assert outcome(bench, ACTIVE) is expected


@pytest.mark.parametrize("share", [0.19, 0.5])
def test_the_last_fifth_of_a_stage_without_telemetry_is_a_gap(bench, share):
    end_s = 70.0
    bench.recording.gpu_samples = [
        one for one in bench.recording.gpu_samples if not end_s - share * 40 < one.t_s <= end_s
    ]
    for criterion in (DRAW, ACTIVE, CORE, CLOCK, "thermal.throttle"):
        assert outcome(bench, criterion) is NOT_MEASURED, criterion
