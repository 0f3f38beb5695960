"""Power against energy, temperatures that stand still, readings from another time."""

import math

import numpy as np
import pytest

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence import sensor_rules
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.loads import measured_stretches
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.sensor_rules import (
    Drawn,
    _blocks,
    against_energy,
    mean_by_energy,
    out_of_time,
)
from rigproof.criteria.evidence.series import Readings
from rigproof.criteria.evidence.windows import Window
from rigproof.records.measurements import TFLOP, Round
from rigproof.records.verdict import Outcome

GPU, OTHER = "pc1/gpu0", "pc2/gpu0"
ACTIVE, CORE = "activity.gpu_active", "thermal.core_temperature"
NOT_MEASURED, PASS = Outcome.NOT_MEASURED, Outcome.PASS
PAUSE = (85.0, 90.0)  # five seconds of idling, of which sensors that live take notice


def with_energy(bench, subject, scale=1.0, from_s=0.0):
    """An energy counter that integrates the instant power, times `scale` from a moment on."""
    samples = [one for one in bench.recording.gpu_samples if one.subject == subject]
    steps_j = [0.1 * (one.power_w or 0.0) * (scale if one.t_s >= from_s else 1.0) for one in samples]
    totals_j = dict(zip((one.t_s for one in samples), np.cumsum(steps_j).tolist(), strict=True))
    bench.samples(subject, energy_j=lambda one: totals_j[one.t_s])


def devices(bench):
    evidence = Evidence(bench.recording, bench.loaded)
    return evidence.device(GPU), evidence.device(OTHER)


def test_only_the_card_whose_power_differs_is_found(bench):
    with_energy(bench, GPU)
    with_energy(bench, OTHER, 1.5, from_s=58)
    one, other = devices(bench)
    assert against_energy(one, "power_w") is None
    apart = against_energy(other, "power_w")
    assert apart is not None
    begun_s, read_w, by_energy_w = apart
    assert 48 < begun_s < 68
    assert by_energy_w / read_w == pytest.approx(1.5, rel=0.2)
    assert mean_by_energy(other, 60.0, 68.0) / mean_by_energy(one, 60.0, 68.0) == pytest.approx(1.5, rel=0.1)


@pytest.mark.parametrize(
    ("from_s", "every", "drawn_w", "doubted"),
    [
        (93.0, 10, 420, False),  # in the feeding stage
        (93.0, 10, 150, True),
        (93.0, 1, 420, False),
        (93.0, 1, 330, True),
        (26.0, 10, 420, True),  # under a continuous load power does not come and go
        (26.0, 1, 420, True),
        (26.0, 1, 490, False),
    ],
)
def test_power_that_comes_and_goes_may_be_read_by_chance_as_far_as_its_readings_vary(
    bench, from_s, every, drawn_w, doubted
):
    """Two readings of 700 W and one of 100 W in turns, 500 W on average, and a counter of another power."""
    bench.recording.gpu_samples = [
        one for subject in (GPU, OTHER) for one in bench.recording.gpu_samples.of(subject)[::every]
    ]
    places = {one.t_s: place for place, one in enumerate(bench.recording.gpu_samples.of(GPU))}
    bench.samples(
        GPU,
        power_w=lambda one: drawn_w if one.t_s < from_s else 700.0 if places[one.t_s] % 3 else 100.0,
        energy_j=lambda one: drawn_w * one.t_s,
    )
    one, _ = devices(bench)
    assert (against_energy(one, "power_w") is not None) is doubted


def test_a_counter_that_never_counted_or_is_infinite_says_nothing_about_the_card_beside_it(bench):
    with_energy(bench, GPU, 1.3)
    bench.samples(OTHER, energy_j=7.0)
    one, other = devices(bench)
    assert (against_energy(one, "power_w") is None, against_energy(other, "power_w")) == (False, None)
    assert math.isnan(mean_by_energy(other, 60.0, 68.0))
    bench.samples(OTHER, 60, 61, energy_j=math.inf)
    one, other = devices(bench)
    assert against_energy(one, "power_w") is not None
    with pytest.raises(NotMeasured, match="a reading of energy_j is not a finite number"):
        against_energy(other, "power_w")


def test_the_blocks_cover_each_stretch_of_work_from_end_to_end(bench):
    """Of 10 s and more each: a longer stretch has blocks of equal length, a shorter one has none."""
    bench.only("sustained")
    one, _ = devices(bench)
    (stretch,) = measured_stretches(one)
    assert 38 < stretch.length_s < 40
    blocks = _blocks(one)
    edges_s = [stretch.from_s + number * stretch.length_s / 3 for number in range(4)]
    assert [one.from_s for one in blocks] == pytest.approx(edges_s[:3])
    assert [one.to_s for one in blocks] == pytest.approx(edges_s[1:])


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


@pytest.mark.parametrize(("field", "read_from_s"), [("core_temperature_c", 0), ("memory_temperature_c", 3)])
def test_a_temperature_that_ignores_a_pause_is_frozen(bench, field, read_from_s):
    bench.recording.gpu_samples = [one for one in bench.recording.gpu_samples if one.t_s >= read_from_s]
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


@pytest.mark.parametrize(("shift_s", "expected"), [(-4.0, NOT_MEASURED), (-1.0, PASS), (4.0, NOT_MEASURED)])
def test_readings_from_another_time_than_the_work_are_none(bench, shift_s, expected):
    """Idle until 6 s, loaded until the last round: the readings' own times moved."""
    mine = [one for one in bench.recording.gpu_samples if one.subject == GPU]
    powers = {round(one.t_s, 1): one.power_w for one in mine}

    def moved(one):
        return powers.get(round(one.t_s - shift_s, 1), 80.0 + one.t_s % 1)

    bench.samples(GPU, 132.7, power_w=lambda one: 80.0 + one.t_s % 1)
    powers |= {key: 80.0 for key in powers if key > 132.7}
    bench.samples(GPU, power_w=moved)
    assert bench.verdict(ACTIVE, GPU).outcome is expected


@pytest.mark.parametrize(("loaded_w", "told"), [(200.0, True), (199.9, False)])
def test_a_load_of_twice_the_power_before_it_shows_when_it_begins(loaded_w, told):
    """From 5 s on, five seconds before the first round begins."""
    who = ("gemm", "pc1/gpu0#0", GPU, "measure")
    rounds = Rounds.of_records(
        [Round(float(end_s), *who, 1.0, 1.0, TFLOP, True, {}) for end_s in range(11, 41)]
    )
    power = Readings.of_pairs([(t_s / 2, loaded_w if 10 <= t_s <= 80 else 100.0) for t_s in range(120)])
    said = "its power rises at t=5.0 s and its first round began at t=10.0 s: " if told else ""
    assert out_of_time(rounds, power).partition("the readings")[0] == said


def test_a_window_that_opens_before_the_load_is_no_load(bench):
    for from_s in (1.0, 2.0, 3.0):
        bench.samples(GPU, from_s, from_s + 0.3, power_w=420.0)
        assert bench.verdict(ACTIVE, GPU).outcome is PASS


def test_a_last_stage_that_needs_little_is_no_end_of_the_load(bench):
    bench.samples(GPU, 132.7, power_w=lambda one: 80 + one.t_s % 1)
    bench.samples(GPU, 114, 132.7, power_w=lambda one: 270 + one.t_s % 1)
    bench.samples(GPU, 125, 125.3, power_w=420.0)
    assert bench.verdict(CORE, GPU).outcome is PASS


@pytest.mark.parametrize(("slow_w", "expected"), [(110.0, PASS), (95.0, NOT_MEASURED)])
def test_a_card_that_slows_down_and_stops_with_the_last_round_is_in_time(bench, slow_w, expected):
    bench.samples(GPU, 132.7, power_w=lambda one: 80 + one.t_s % 1)
    bench.samples(GPU, 126, 132.6, power_w=lambda one: slow_w + one.t_s % 1)
    assert bench.verdict(CORE, GPU).outcome is expected


@pytest.mark.parametrize(("late_s", "expected"), [(1.0, PASS), (4.0, NOT_MEASURED), (6.0, NOT_MEASURED)])
def test_readings_that_come_late_leave_no_time_before_the_load_and_are_noticed(bench, late_s, expected):
    """Nothing was read before 5 s."""
    mine = [one for one in bench.recording.gpu_samples if one.subject == GPU]
    powers = {round(one.t_s, 1): one.power_w for one in mine}
    bench.recording.gpu_samples = [one for one in bench.recording.gpu_samples if one.t_s >= 5]
    bench.samples(GPU, power_w=lambda one: powers.get(round(one.t_s - late_s, 1), 80.0))
    assert bench.verdict(CORE, GPU).outcome is expected


def test_power_that_is_still_high_as_the_readings_end_did_not_fall_early(bench):
    """It dips 5 s before the last round ends, which is at 132.7 s, and stays high from then on."""
    bench.samples(GPU, 126.5, 128, power_w=lambda one: 80.0 + one.t_s % 1)
    assert bench.verdict(ACTIVE, GPU).outcome is PASS
    bench.samples(GPU, 126.5, power_w=lambda one: 80.0 + one.t_s % 1)
    assert bench.verdict(ACTIVE, GPU).outcome is NOT_MEASURED


def test_a_reading_of_the_moment_in_which_the_last_round_ends_is_not_yet_one_without_load(bench):
    """The card slows down to 95 W at 126 s; only that one reading is as low as a stop would show."""
    last_s = max(one.t_s for one in bench.recording.rounds if one.subject == GPU)
    bench.samples(GPU, 132.7, power_w=lambda one: 80 + one.t_s % 1)
    bench.samples(GPU, 126, 132.6, power_w=lambda one: 95 + one.t_s % 1)
    bench.samples(GPU, last_s, last_s, t_s=last_s, power_w=60.0)
    assert bench.verdict(CORE, GPU).outcome is NOT_MEASURED


def test_stretches_that_adjoin_are_one_and_others_are_not(bench, monkeypatch):
    found = [Window(0.0, 12.0), Window(20.0, 30.0), Window(30.0, 41.0)]
    monkeypatch.setattr(sensor_rules, "measured_stretches", lambda _device: found)
    blocks = _blocks(devices(bench)[0])
    assert [(one.from_s, one.to_s) for one in blocks] == [(0.0, 12.0), (20.0, 30.5), (30.5, 41.0)]
