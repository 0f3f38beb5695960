"""Readings from another time than the work are no measurement."""

import pytest

from rigproof.records.verdict import Outcome

GPU = "pc1/gpu0"
ACTIVE, CORE = "activity.gpu_active", "thermal.core_temperature"
NOT_MEASURED, PASS = Outcome.NOT_MEASURED, Outcome.PASS


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
