"""Pieces of a load, and what a sensor read in them."""

import math

import pytest

from rigproof.criteria.evidence.pieces import Piece, PieceReadings
from rigproof.criteria.evidence.series import Series
from rigproof.criteria.evidence.windows import Window
from rigproof.records.rows import Rows
from rigproof.records.samples import GpuSample

# Once a second; None where a sample lacks the power.
POWER_W = [5.0, None, 1.0, 3.0, 99.0, 2.0, 4.0, 6.0, 8.0, None, None]


def piece(*places):
    return Piece(tuple(Window(one.start, one.stop) for one in places), places)


def test_the_figures_of_each_piece_are_of_the_readings_in_all_its_stretches():
    series = Series.of(
        Rows.of_records(
            GpuSample, [GpuSample(float(t_s), "a", power_w=value) for t_s, value in enumerate(POWER_W)]
        ),
        "a",
    )
    pieces = [piece(slice(0, 2), slice(2, 4)), piece(slice(5, 9)), piece(slice(9, 11))]
    found = PieceReadings(pieces, series, "power_w")
    assert found.counts.tolist() == [3, 4, 0]
    for figure, expected in (
        ("means", [3.0, 5.0, math.nan]),
        ("medians", [3.0, 5.0, math.nan]),
        ("upper_medians", [3.0, 6.0, math.nan]),
        ("lowest", [1.0, 2.0, math.nan]),
    ):
        assert getattr(found, figure).tolist() == pytest.approx(expected, nan_ok=True)
    assert list(map(len, found.parts)) == [4, 4, 2]  # with those that lack it


def test_joined_pieces_keep_all_their_stretches():
    first = Piece((Window(0, 2),), (slice(0, 3),))
    second = Piece((Window(5, 6), Window(8, 9)), (slice(5, 7), slice(8, 10)))
    joined = Piece.of([first, second])
    assert joined.stretches == (Window(0, 2), Window(5, 6), Window(8, 9))
    assert (joined.samples, joined.span, joined.length_s) == (7, Window(0, 9), 4)
    assert Piece.of([first]) is first
