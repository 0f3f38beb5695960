"""Columns are as compact as possible, and hold the same numbers."""

import math

import numpy as np
import pyarrow as pa
import pytest

from rigproof.records.columns import Coded, Lists, Numbers
from rigproof.records.disk import arrow_columns
from rigproof.records.disk.arrow_columns import column_from, lists_from

MANY = 70_000  # more than two bytes can number


def lists_of(*pieces):
    return lists_from(pa.chunked_array([piece], pa.list_(pa.float64())) for piece in pieces)


def test_numbers_in_lists_that_repeat_take_few_bytes_each():
    flat, bounds, known = lists_of([[0.1, 0.2], [0.1]], [], [None, [], [0.2, 0.3]])
    assert (type(flat), flat.array.dtype) == (Coded, np.uint8)
    lists = Lists(lambda: (flat, bounds, known))
    assert lists.plain(slice(None)) == [(0.1, 0.2), (0.1,), None, (), (0.2, 0.3)]


@pytest.mark.parametrize("at_once", [MANY, 1000])
def test_too_many_distinct_numbers_in_lists_are_held_as_they_are(at_once):
    many = (np.arange(MANY) / 7).tolist()
    flat, bounds, _ = lists_of(*([many[place : place + at_once]] for place in range(0, MANY, at_once)))
    assert type(flat) is Numbers
    assert flat.array.tolist() == many
    assert bounds.tolist() == [*range(0, MANY + 1, at_once)]


def test_no_list_is_a_column_too():
    flat, bounds, known = lists_of()
    assert (len(flat.array), bounds.tolist(), len(known)) == (0, [0], 0)


@pytest.mark.parametrize("alike", [0, 600])
def test_a_column_is_of_numbers_wherever_it_begins_to_differ(monkeypatch, alike):
    """Found by some of its values, before all of them are looked at."""
    monkeypatch.setattr(arrow_columns, "PROBED", 500)
    monkeypatch.setattr(arrow_columns, "FEW", 100)
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
