"""Readings are pairs, held as two arrays."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.criteria.evidence.readings import Readings


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
