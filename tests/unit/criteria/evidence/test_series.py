"""The readings of one sensor of one subject, in the order of time."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.series import Readings, places_within, require_finite
from rigproof.criteria.evidence.windows import Window
from rigproof.records.rows import Rows
from rigproof.records.samples import GpuSample

INSIDE = Window(2.0, 4.0)


@given(st.lists(st.tuples(st.floats(0, 9), st.floats(-9, 9))))
def test_they_behave_as_the_list_of_their_pairs(pairs):
    found = Readings.of_pairs(pairs)
    assert list(found) == pairs
    assert len(found) == len(pairs)
    assert bool(found) == bool(pairs)
    assert list(zip(found.times_s, found.values, strict=True)) == pairs


def test_their_mean_and_their_ends():
    found = Readings.of_pairs([(0.0, 3.0), (1.0, 1.0), (2.0, 5.0)])
    assert (found.mean, found.lowest, found.highest) == (3.0, 1.0, 5.0)


def test_of_no_readings_nothing_is_known():
    nothing = Readings.of_pairs([])
    assert math.isnan(nothing.mean)
    assert (nothing.lowest, nothing.highest) == (math.inf, -math.inf)
    assert nothing.times_s.tolist() == nothing.values.tolist() == pytest.approx([])


def once_a_second(*values):
    return Readings.of_pairs(enumerate(map(float, values)))


def test_a_value_that_is_read_three_times_in_a_row_is_found():
    assert once_a_second(1, 2, 2, 2).repeated(0.0) == [(1, 3)]
    assert once_a_second(3, 3, 4, 4, 4, 4).repeated(0.0) == [(2, 5)]
    assert once_a_second(5, 6).repeated(0.0) == once_a_second().repeated(0.0) == []


def test_a_repeated_value_must_last_as_long():
    readings = once_a_second(2, 2, 2, 3, 3, 3, 3)
    assert readings.repeated(3.0) == [(3, 6)]
    assert readings.repeated(2.0) == [(0, 2), (3, 6)]


def test_readings_within_a_span_include_both_its_ends():
    assert list(once_a_second(5, 6, 7, 8).within(1.0, 2.0)) == [(1.0, 6.0), (2.0, 7.0)]
    assert not once_a_second(5, 6).within(0.2, 0.8)


def sample(t_s, power_w=None, subject="a"):
    return GpuSample(t_s=t_s, subject=subject, power_w=power_w)


def samples_of(*samples) -> Rows:
    return Rows.of_records(GpuSample, samples).in_order_of_time("a")


def power_within(samples, window):
    return list(Readings.of(samples, "power_w", window))


def test_a_window_holds_what_lies_on_its_ends():
    samples = samples_of(*(sample(t_s, 10.0 * t_s) for t_s in (1.9, 2.0, 3.0, 4.0, 4.1)))
    assert power_within(samples, INSIDE) == [(2.0, 20.0), (3.0, 30.0), (4.0, 40.0)]
    assert samples.fields("t_s", "power_w", where=places_within(samples, INSIDE)) == [
        (2.0, 20.0),
        (3.0, 30.0),
        (4.0, 40.0),
    ]


def test_a_sample_without_the_reading_is_left_out_of_its_readings():
    samples = samples_of(sample(2.0, 20.0), sample(3.0), sample(4.0, 40.0))
    assert power_within(samples, INSIDE) == power_within(samples, None) == [(2.0, 20.0), (4.0, 40.0)]


def test_samples_out_of_order_are_put_in_order():
    samples = samples_of(sample(3.0, 30.0), sample(2.0, 20.0), sample(9.0, 90.0))
    assert [one.t_s for one in samples] == [2.0, 3.0, 9.0]
    assert power_within(samples, INSIDE) == [(2.0, 20.0), (3.0, 30.0)]


def test_a_subject_s_samples_are_its_own_alone():
    samples = samples_of(sample(2.0, 1.0), sample(3.0, 2.0, "b"), sample(4.0, 3.0))
    assert [one.power_w for one in samples] == [1.0, 3.0]
    assert not samples_of(sample(3.0, 2.0, "b"))


def test_a_sample_without_a_finite_moment_lies_in_no_window():
    samples = samples_of(sample(3.0), sample(math.nan), sample(1.0), sample(math.inf))
    assert [one.t_s for one in samples] == [1.0, 3.0]


def test_an_infinite_reading_is_not_measured():
    samples = samples_of(sample(1.0, 5.0), sample(2.0, math.nan), sample(3.0, math.inf))
    found = Readings.of(samples, "power_w")
    assert list(found) == [(1.0, 5.0), (3.0, math.inf)]
    with pytest.raises(NotMeasured, match="a reading of power_w is not a finite number"):
        require_finite("power_w", found.values)
