import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.cluster.driver.agents import RoundTrip, clock_offset


def test_the_shortest_round_trip_counts():
    readings = [RoundTrip(10.0, 14.0, 100.0), RoundTrip(20.0, 20.2, 110.0), RoundTrip(30.0, 31.0, 120.0)]
    offset_s, error_s = clock_offset(readings)
    assert offset_s == pytest.approx(20.1 - 110.0)
    assert error_s == pytest.approx(0.1)


def test_without_a_reading_there_is_no_offset():
    with pytest.raises(ValueError, match="empty"):
        clock_offset([])


@given(
    st.floats(-1e6, 1e6),
    st.lists(st.tuples(st.floats(0, 1e4), st.floats(0, 5), st.floats(0, 5)), min_size=1),
)
def test_the_true_offset_lies_within_the_error(true_s, trips):
    readings = [RoundTrip(sent, sent + there + back, sent + there - true_s) for sent, there, back in trips]
    offset_s, error_s = clock_offset(readings)
    assert abs(offset_s - true_s) <= error_s + 1e-6
