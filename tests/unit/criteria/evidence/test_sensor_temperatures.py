"""A temperature that does not follow the power is no measurement."""

import pytest

from rigproof.criteria.evidence.readings import Readings
from rigproof.criteria.evidence.sensor_temperatures import Drawn
from rigproof.records.verdict import Outcome

GPU = "pc1/gpu0"
CORE = "thermal.core_temperature"
NOT_MEASURED, PASS = Outcome.NOT_MEASURED, Outcome.PASS


@pytest.mark.parametrize("field", ["core_temperature_c", "memory_temperature_c"])
def test_a_temperature_that_ignores_a_step_of_power_is_frozen(bench, field):
    criterion = CORE if field.startswith("core") else "thermal.memory_temperature"
    bench.samples(GPU, 26, 72, **{field: 63})
    assert bench.verdict(criterion, GPU).outcome is PASS  # constant under constant load
    bench.samples(GPU, 48, power_w=lambda one: one.power_w * 0.6)
    verdict = bench.verdict(criterion, GPU)
    assert verdict.outcome is NOT_MEASURED
    assert "63 °C for 20 s after the power went from" in verdict.detail


def test_a_temperature_that_follows_a_step_within_twenty_seconds_is_believed(bench):
    bench.samples(GPU, 26, 62, core_temperature_c=63)
    bench.samples(GPU, 48, power_w=lambda one: one.power_w * 0.6)
    assert bench.verdict(CORE, GPU).outcome is PASS


@pytest.mark.parametrize(("from_s", "expected"), [(40.0, NOT_MEASURED), (40.1, PASS)])
def test_a_temperature_that_never_moved_in_thirty_seconds_is_frozen(bench, from_s, expected):
    """Read until 70 s: the work begins at 42 s, too soon for a step of power to be looked at."""
    bench.only("sustained")
    bench.stage("sustained", start_s=40.0, loaded_from_s=44.0)
    bench.recording.rounds = [one for one in bench.recording.rounds if one.t_s > 42.0]
    bench.recording.gpu_samples = [
        one for one in bench.recording.gpu_samples if from_s - 0.05 < one.t_s < 70.05
    ]
    bench.samples(GPU, core_temperature_c=63)
    bench.samples(GPU, 0, 42, power_w=lambda one: 80 + one.t_s % 1)
    assert bench.verdict(CORE, GPU).outcome is expected
    if expected is NOT_MEASURED:
        assert bench.verdict(CORE, GPU).detail == (
            "the core temperature reads 63 °C during the whole run: the sensor is frozen"
        )


PAUSE = (85.0, 90.0)  # five seconds of idling, of which sensors that live take notice


@pytest.mark.parametrize("field", ["core_temperature_c", "memory_temperature_c"])
def test_a_temperature_that_ignores_a_pause_is_frozen(bench, field):
    criterion = CORE if field.startswith("core") else "thermal.memory_temperature"
    bench.samples(GPU, 40, 102.95, **{field: 63})
    assert bench.verdict(criterion, GPU).outcome is PASS  # constant under constant load
    bench.samples(GPU, *PAUSE, power_w=lambda one: 80 + one.t_s % 1)
    assert bench.verdict(criterion, GPU).outcome is PASS  # the mean had changed by half at 88 s
    bench.samples(GPU, 40, 103.05, **{field: 63})
    verdict = bench.verdict(criterion, GPU)
    assert verdict.outcome is NOT_MEASURED
    what = "core temperature" if field.startswith("core") else "memory temperature"
    assert verdict.detail.startswith(f"sustained: the {what} reads 63 °C for 63 s from t=40 s on, while the ")


def test_a_temperature_need_not_follow_a_change_of_less_than_half(bench):
    bench.samples(GPU, 40, core_temperature_c=63)
    """The mean of 5 s, four of them in the pause, went down by 46 and by 54 %."""
    bench.samples(GPU, 85, 88.05, power_w=lambda one: 265 + one.t_s % 1)
    assert bench.verdict(CORE, GPU).outcome is PASS
    bench.samples(GPU, 85, 88.05, power_w=lambda one: 215 + one.t_s % 1)
    assert bench.verdict(CORE, GPU).outcome is NOT_MEASURED


def test_a_temperature_that_moves_in_the_pause_is_believed(bench):
    bench.samples(GPU, 40, core_temperature_c=63)
    bench.samples(GPU, *PAUSE, power_w=lambda one: 80 + one.t_s % 1)
    bench.samples(GPU, 87, 92, core_temperature_c=62)
    assert bench.verdict(CORE, GPU).outcome is PASS


@pytest.mark.parametrize(
    ("quiet_s", "lasting_s", "steps"),
    [
        (5, 20, [(6.0, 100.0, 300.0)]),
        (4, 20, []),  # a shorter pause is no rest from which a temperature would rise
        (5, 19, []),
    ],
)
def test_a_step_lasts_twenty_seconds_after_five_of_rest(quiet_s, lasting_s, steps):
    """From 100 W to 300 W within two seconds, each second's power as long as stated."""
    watts = [100.0] * quiet_s + [200.0] + [300.0] * lasting_s
    power = Readings.of_pairs(list(enumerate(watts)))
    assert Drawn(power, 0.0, len(watts)).steps == steps
