import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.criteria.evidence.readings import Readings
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.windows import (
    Window,
    slice_edges,
    values_by_slice,
    without_work,
    work_by_slice,
    work_of_groups,
)
from support.stage_records import gemm_round


def work(end_s, seconds, work=1.0):
    return gemm_round(end_s, seconds, work)


def work_in(rounds, slices):
    return work_by_slice(Rounds.of_records(rounds), slices)


def test_slices_are_whole_and_a_rest_is_left_out():
    assert [(w.from_s, w.to_s) for w in Window(10, 12.5).slices(1)] == [(10, 11), (11, 12)]
    assert len(Window(0.1, 0.4).slices(0.1)) == 3


def test_a_round_counts_in_proportion_to_its_overlap():
    slices = Window(0, 3).slices(1)
    assert work_in([work(1.5, 1.0, 10)], slices) == [5.0, 5.0, 0.0]
    assert work_in([work(0.5, 1.0, 10)], slices) == [5.0, 0.0, 0.0]
    assert work_in([work(3.5, 1.0, 10)], slices) == [0.0, 0.0, 5.0]
    assert work_in([work(9, 1.0), work(-9, 1.0)], slices) == [0.0, 0.0, 0.0]


@given(st.lists(st.tuples(st.floats(-5, 25), st.floats(0.01, 8), st.floats(0.1, 100)), max_size=20))
def test_no_work_is_lost_nor_found(rounds):
    rounds = [work(*one) for one in rounds]
    inside = sum(
        one.work * max(0.0, min(one.t_s, 20.0) - max(one.t_s - one.seconds, 0.0)) / one.seconds
        for one in rounds
    )
    assert sum(work_in(rounds, Window(0, 20).slices(2.5))) == pytest.approx(inside)


ROUND = st.tuples(st.integers(0, 2), st.floats(-5, 25), st.floats(0.01, 8), st.floats(0.1, 100))


@given(st.lists(ROUND, max_size=20))
def test_the_work_of_groups_is_that_of_each(rounds):
    windows, numbers = [Window(0, 20), Window(5, 5), Window(3, 9)], [8, 0, 4]
    groups = np.asarray([one for one, *_ in rounds], np.intp)
    found = work_of_groups(
        Rounds.of_records([work(*one) for _, *one in rounds]),
        groups,
        np.asarray([0.0, 5.0, 3.0]),
        np.asarray([2.5, 1.0, 1.5]),
        np.asarray(numbers),
    )
    expected = []
    for group, (window, number) in enumerate(zip(windows, numbers, strict=True)):
        slices = window.slices(window.length_s / number) if number else ()
        expected += work_in([work(*one) for own, *one in rounds if own == group], slices)
    assert found.tolist() == pytest.approx(expected)


def test_values_fall_into_the_slice_of_their_moment():
    pairs = [(-0.1, 1), (0.0, 2), (0.99, 3), (1.0, 4), (2.0, 5)]
    assert values_by_slice(Readings.of_pairs(pairs), Window(0, 2).slices(1)) == [[2, 3], [4]]


def test_without_slices_there_is_nothing():
    assert work_in([work(1, 1)], ()) == []
    assert values_by_slice(Readings.of_pairs([(0, 1)]), ()) == []


def test_a_window_shorter_than_a_slice_has_none():
    assert Window(10, 10.9).slices(1) == ()


def test_a_window_is_complete_unless_stated_otherwise():
    assert Window(0, 1).complete


def test_work_is_put_into_its_slice_wherever_the_slices_begin_and_however_wide_they_are():
    slices = Window(100.0, 108.0).slices(2.0)
    assert work_in([work(105.0, 2.0, 10)], slices) == [0.0, 5.0, 5.0, 0.0]
    assert work_in([work(108.0, 0.5, 10), work(100.5, 1.0, 10)], slices) == [5.0, 0.0, 0.0, 10.0]
    assert work_in([work(101.0, 1.0, 10)], slices[:1]) == [10.0]


def test_values_fall_into_one_of_three_slices():
    pairs = [(9.9, 0), (10.0, 1), (11.0, 2), (12.9, 3), (13.0, 4)]
    assert values_by_slice(Readings.of_pairs(pairs), Window(10, 13).slices(1)) == [[1], [2], [3]]


def test_slices_may_be_shorter_than_a_second():
    slices = Window(2.0, 4.0).slices(0.5)
    assert work_in([work(3.75, 1.0, 10)], slices) == [0.0, 2.5, 5.0, 2.5]


ROUNDS = st.lists(st.tuples(st.floats(-5, 25), st.floats(0.01, 8), st.floats(0.1, 100)), max_size=20)
STRETCHES = st.lists(
    st.tuples(st.floats(0, 20), st.floats(0, 9)).map(lambda one: Window(one[0], one[0] + one[1])), max_size=4
)


@given(ROUNDS, STRETCHES, st.sampled_from([0.5, 1.0, 2.5]))
def test_a_span_is_without_work_where_no_round_overlaps_it(rounds, stretches, width_s):
    rounds = Rounds.of_records([work(*one) for one in rounds])
    slices = [piece for one in stretches for piece in one.slices(width_s)]
    from_s, to_s, places = slice_edges(*edges(stretches), width_s)
    assert list(zip(from_s.tolist(), to_s.tolist(), strict=True)) == [
        (one.from_s, one.to_s) for one in slices
    ]
    assert places.tolist() == [place for place, one in enumerate(stretches) for _ in one.slices(width_s)]
    overlapped = [bool(((rounds.begins_s < one.to_s) & (rounds.t_s > one.from_s)).any()) for one in slices]
    assert without_work(rounds.begins_s, rounds.t_s, from_s, to_s).tolist() == [not one for one in overlapped]


def test_a_round_that_only_touches_a_span_does_no_work_there():
    rounds = Rounds.of_records([work(1.0, 1.0), work(3.0, 1.0)])
    from_s, to_s, _ = slice_edges(*edges([Window(0, 3)]), 1.0)
    assert without_work(rounds.begins_s, rounds.t_s, from_s, to_s).tolist() == [False, True, False]


def edges(stretches):
    return np.asarray([(one.from_s, one.to_s) for one in stretches], float).reshape(-1, 2).T


def test_stretches_may_each_be_cut_into_slices_of_their_own_width():
    from_s, to_s, places = slice_edges(*edges([Window(0, 3), Window(5, 7)]), np.asarray([1.5, 1.0]))
    assert list(zip(from_s.tolist(), to_s.tolist(), places.tolist(), strict=True)) == [
        (0.0, 1.5, 0),
        (1.5, 3.0, 0),
        (5.0, 6.0, 1),
        (6.0, 7.0, 1),
    ]
