"""Readings are pairs, held as two lists."""

from hypothesis import given
from hypothesis import strategies as st

from rigproof.criteria.evidence.readings import Readings


@given(st.lists(st.tuples(st.floats(0, 9), st.integers())), st.integers(-3, 9), st.integers(-3, 9))
def test_they_behave_as_the_list_of_their_pairs(pairs, start, end):
    found = Readings.of_pairs(pairs)
    assert list(found) == pairs
    assert list(found[start:end]) == pairs[start:end]
    assert [found[place] for place in range(len(found))] == pairs
    assert bool(found) == bool(pairs)
    assert list(zip(found.times_s, found.values, strict=True)) == pairs
