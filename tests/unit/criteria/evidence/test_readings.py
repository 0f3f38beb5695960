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
