"""Readings cover a stretch if there are enough of them, and no long gap."""

import pytest

from rigproof.criteria.criterion import Limit, NotMeasured
from rigproof.criteria.evidence.coverage import require_coverage
from rigproof.criteria.evidence.windows import Window


def reason(times_s, window, share, rate_hz):
    """Why readings at these times do not cover the window; empty if they do."""
    try:
        require_coverage(times_s, window, Limit(share, "defaults"), rate_hz, "power")
    except NotMeasured as found:
        return found.reason
    return ""


def test_a_share_of_the_grid_points_due_is_enough():
    def cover(number):
        return reason([n / 8 for n in range(number)], Window(0.0, 10.0), 0.8, 10)

    assert cover(80) == ""
    assert cover(79) == "only 79 of the 100 readings of power due under load, which is under 80 %"
    assert cover(0) == "no power was read under load"


@pytest.mark.parametrize("times_s", [[10.1, 11.1], [10.9]])
def test_every_point_of_a_slow_grid_is_enough_wherever_the_window_begins(times_s):
    """At 1 Hz a window of 1.7 s holds one point or two."""
    assert reason(times_s, Window(10.0, 11.7), 0.8, 1) == ""


@pytest.mark.parametrize(("rate_hz", "longest_s"), [(10, 2.0), (1, 3.0)])
def test_no_stretch_may_be_without_readings(rate_hz, longest_s):
    """Two seconds, or three grid points where these are further apart; at the window's ends too."""

    def cover(gap_s, at_s):
        times_s = [n / 10 for n in range(401) if not at_s < n / 10 < at_s + gap_s]
        return reason(times_s, Window(0.0, 40.0), 0.5, rate_hz)

    for at_s in (-0.1, 20.0, 40.1 - longest_s):
        assert cover(longest_s, at_s) == ""
    why = cover(longest_s + 0.5, 20.0)
    assert why == f"no power was read for {longest_s + 0.5:.1f} s under load, from t=20 s on"
    assert cover(longest_s + 0.5, -0.1).endswith("from t=0 s on")
    assert cover(9.0, 31.9).endswith("from t=32 s on")


def test_one_reading_is_enough_where_one_is_due_and_none_never_is():
    window = Window(10.0, 11.0)
    assert reason([10.5], window, 0.8, 1.0) == ""
    assert reason([], window, 0.8, 1.0) == "no power was read under load"
    assert reason([10.5], window, 0.8, 2.0).startswith("only 1 of the 2 readings of power")
