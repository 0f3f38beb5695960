"""Stretches of run time, the work done in them, and whether readings cover them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.criteria.criterion import Limit, NotMeasured
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.series import Readings
from rigproof.criteria.evidence.windows import (
    Window,
    require_coverage,
    without_work,
    work_by_slice,
)
from support.stage_records import gemm_round

ROUNDS = st.lists(st.tuples(st.floats(-5, 25), st.floats(0.01, 8), st.floats(0.1, 100)), max_size=20)
STRETCHES = st.lists(
    st.tuples(st.floats(0, 20), st.floats(0, 9)).map(lambda one: Window(one[0], one[0] + one[1])), max_size=4
)


def work(end_s, seconds, work=1.0):
    return gemm_round(end_s, seconds, work)


def work_in(rounds, slices):
    found = Rounds.of_records(rounds)
    return work_by_slice(found.begins_s, found.t_s, found.rates, slices)


def test_slices_are_whole_and_a_rest_is_left_out():
    assert [(w.from_s, w.to_s) for w in Window(10, 12.5).slices(1)] == [(10, 11), (11, 12)]
    assert len(Window(0.1, 0.4).slices(0.1)) == 3


@given(ROUNDS, st.floats(-5, 5), st.sampled_from([0.5, 1.0, 2.5]))
def test_a_round_counts_in_each_slice_in_proportion_to_its_overlap(rounds, from_s, width_s):
    rounds = [work(*one) for one in rounds]
    slices = Window(from_s, from_s + 20).slices(width_s)

    def done_in(piece):
        overlaps_s = [min(one.t_s, piece.to_s) - max(one.t_s - one.seconds, piece.from_s) for one in rounds]
        return sum(one.work * max(0.0, s) / one.seconds for one, s in zip(rounds, overlaps_s, strict=True))

    expected = list(map(done_in, slices))
    assert work_in(rounds, slices) == pytest.approx(expected)


def test_parts_are_equal_and_cover_the_window():
    assert Window(1, 7).parts(3) == (Window(1, 3), Window(3, 5), Window(5, 7))
    assert Window(1, 7).parts(0) == Window(5, 5).parts(4) == ()
    assert len(Window(0.1, 0.4).parts(7)) == 7


def test_values_fall_into_the_slice_of_their_moment():
    pairs = [(-0.1, 1), (0.0, 2), (0.99, 3), (1.0, 4), (2.0, 5)]
    assert Readings.of_pairs(pairs).by_slice(Window(0, 2).slices(1)) == [[2, 3], [4]]


def test_without_slices_there_is_nothing():
    assert work_in([work(1, 1)], ()) == []
    assert Readings.of_pairs([(0, 1)]).by_slice(()) == []


def test_a_window_shorter_than_a_slice_has_none():
    assert Window(10, 10.9).slices(1) == ()


@given(ROUNDS, STRETCHES, st.sampled_from([0.5, 1.0, 2.5]))
def test_a_span_is_without_work_where_no_round_overlaps_it(rounds, stretches, width_s):
    rounds = Rounds.of_records([work(*one) for one in rounds])
    slices = [piece for one in stretches for piece in one.slices(width_s)]
    overlapped = [bool(((rounds.begins_s < one.to_s) & (rounds.t_s > one.from_s)).any()) for one in slices]
    assert without_work(rounds.begins_s, rounds.t_s, slices).tolist() == [not one for one in overlapped]


def test_a_round_that_only_touches_a_span_does_no_work_there():
    rounds = Rounds.of_records([work(1.0, 1.0), work(3.0, 1.0)])
    slices = Window(0, 3).slices(1)
    assert without_work(rounds.begins_s, rounds.t_s, slices).tolist() == [False, True, False]


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
