"""Columns are as compact as possible, and hold the same numbers."""

import math

import numpy as np
import pyarrow as pa
import pytest

from rigproof.records.columns import Coded, Numbers
from rigproof.records.disk import collecting
from rigproof.records.disk.collecting import Collected, column_from

MANY = 70_000  # more than two bytes can number


def collected(*pieces):
    found = Collected()
    for piece in pieces:
        found.add(np.asarray(piece, np.float64))
    return found.column()


def values_of(column):
    return column.numbers[column.array] if isinstance(column, Coded) else column.array


def bits(values):
    return np.asarray(values, np.float64).view(np.int64).tolist()


def test_numbers_that_repeat_take_two_bytes_each():
    column = collected([0.1, 0.2, 0.1], [], [0.2, 0.3])
    assert (type(column), column.array.dtype) == (Coded, np.uint16)
    assert values_of(column).tolist() == [0.1, 0.2, 0.1, 0.2, 0.3]


def test_numbers_that_equal_others_or_not_even_themselves_stay_what_they_are():
    odd = [0.0, -0.0, math.nan, math.inf, -math.inf, 0.0, math.nan]
    assert bits(values_of(collected(odd, odd))) == bits(odd + odd)


@pytest.mark.parametrize("before", [[], [1.5, -0.0]])
@pytest.mark.parametrize("at_once", [MANY, 1000])
def test_too_many_distinct_numbers_are_held_as_they_are(before, at_once):
    many = np.arange(MANY) / 7
    column = collected(before, *(many[place : place + at_once] for place in range(0, MANY, at_once)), [2.5])
    assert type(column) is Numbers
    assert bits(column.array) == bits([*before, *many, 2.5])


def test_nothing_is_a_column_too():
    assert len(collected().array) == len(collected([]).array) == 0


@pytest.mark.parametrize("alike", [0, 600])
def test_a_column_is_of_numbers_wherever_it_begins_to_differ(monkeypatch, alike):
    """Found by some of its values, before all of them are looked at."""
    monkeypatch.setattr(collecting, "PROBED", 500)
    monkeypatch.setattr(collecting, "FEW", 100)
    values = [1.0] * alike + [place / 3 for place in range(600)]
    column = column_from(pa.chunked_array([values]))
    assert type(column) is Numbers
    assert column.array.tolist() == values


@pytest.mark.parametrize("distinct", [3, 10_000])
def test_a_number_that_is_not_finite_is_none(distinct):
    values = [*(place / 3 for place in range(distinct)), math.nan, math.inf, None, -math.inf]
    column = column_from(pa.chunked_array([values], pa.float64()))
    assert type(column) is (Coded if distinct == 3 else Numbers)
    assert column.plain(slice(None)) == [*values[:distinct], None, None, None, None]
    assert column.gaps


@pytest.mark.parametrize("values", [["a", None, "b", "a"], [True, False, None], [1, 2**60, None, 1]])
def test_what_is_no_floating_number_is_coded(values):
    column = column_from(pa.chunked_array([values[:2], values[2:]]))
    assert (type(column), column.plain(slice(None))) == (Coded, values)
