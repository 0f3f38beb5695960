"""Records of one subject in the order of time, and the readings of one field in them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.series import Readings, Series
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


def rows_of(*samples) -> Rows:
    return Rows.of_records(GpuSample, samples)


def series_of(*samples) -> Series:
    return Series.of(rows_of(*samples), "a")


def test_a_window_holds_what_lies_on_its_ends():
    series = series_of(*(sample(t_s, 10.0 * t_s) for t_s in (1.9, 2.0, 3.0, 4.0, 4.1)))
    found = series.within(INSIDE)
    assert [one.t_s for one in found] == found.times_s.tolist() == [2.0, 3.0, 4.0]
    assert len(found) == 3
    assert list(found.recorded("power_w")) == [(2.0, 20.0), (3.0, 30.0), (4.0, 40.0)]
    assert found.fields("t_s", "power_w") == [(2.0, 20.0), (3.0, 30.0), (4.0, 40.0)]
    assert found[-1].t_s == 4.0
    assert [one.t_s for one in found[:2]] == [2.0, 3.0]


def test_a_sample_without_the_reading_is_left_out_of_its_readings():
    found = series_of(sample(2.0, 20.0), sample(3.0), sample(4.0, 40.0)).within(INSIDE)
    assert list(found.recorded("power_w")) == list(found.readings("power_w")) == [(2.0, 20.0), (4.0, 40.0)]
    assert len(found) == 3


def test_each_window_of_a_field_has_its_own_readings():
    series = series_of(*(sample(float(n), 10.0 * n) for n in range(6)))
    assert series.within(Window(0, 1)).recorded("power_w").values.tolist() == [0.0, 10.0]
    assert series.within(Window(1, 2)).recorded("power_w").values.tolist() == [10.0, 20.0]
    assert series.within(Window(0, 2)).recorded("power_w").values.tolist() == [0.0, 10.0, 20.0]


def test_records_out_of_order_are_put_in_order():
    series = series_of(sample(3.0, 30.0), sample(2.0, 20.0), sample(9.0, 90.0))
    assert [one.t_s for one in series] == [2.0, 3.0, 9.0]
    assert series.within(INSIDE).recorded("power_w").values.tolist() == [20.0, 30.0]


def test_a_subject_s_series_holds_its_own_records_alone():
    samples = (sample(2.0, 1.0), sample(3.0, 2.0, "b"), sample(4.0, 3.0))
    assert [one.power_w for one in series_of(*samples)] == [1.0, 3.0]


def test_an_infinite_reading_is_not_measured_and_nan_is_none():
    series = series_of(sample(1.0, 5.0), sample(2.0, math.nan), sample(3.0, math.inf))
    with pytest.raises(NotMeasured, match="a reading of power_w is not a finite number"):
        series.readings("power_w")
    assert list(series.recorded("power_w")) == [(1.0, 5.0), (3.0, math.inf)]
    assert list(series[:2].readings("power_w")) == [(1.0, 5.0)]


def test_what_has_no_finite_moment_is_in_no_series():
    samples = [sample(3.0), sample(math.nan), sample(1.0)]
    assert [one.t_s for one in series_of(*samples)] == [1.0, 3.0]
    assert rows_of(*samples).last_s() == 3.0


def test_a_field_as_numbers_has_nan_for_what_a_record_lacks():
    series = series_of(*(sample(float(n), None if n == 1 else 10.0 * n) for n in range(3)))
    assert series.numbers("power_w").tolist() == pytest.approx([0.0, math.nan, 20.0], nan_ok=True)


def test_a_part_of_a_part_is_counted_from_its_begin():
    found = series_of(*(sample(float(n), 10.0 * n) for n in range(6))).within(INSIDE)
    assert found[1:].recorded("power_w").values.tolist() == [30.0, 40.0]
    assert found[-2].t_s == 3.0


def test_a_reading_that_is_not_finite_spoils_no_other_place():
    series = series_of(sample(1.0, 5.0), sample(2.0, math.inf))
    assert series[:1].readings("power_w").values.tolist() == [5.0]
