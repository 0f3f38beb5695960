"""What is computed for all pieces at once is what each of them would give by itself."""

import math
from itertools import accumulate
from statistics import fmean, median, median_high

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.criteria.evidence.pieces import Piece, PieceReadings, PieceTable
from rigproof.criteria.evidence.series import Series
from rigproof.criteria.evidence.windows import Window
from rigproof.records.samples import GpuSample

# Of a device: for each stage, for each piece, for each stretch, its readings; None if a sample has none.
stretches = st.lists(st.lists(st.none() | st.floats(-9, 9), max_size=5), min_size=1, max_size=3)
loads = st.lists(stretches, min_size=1, max_size=4)
devices = st.lists(st.lists(loads, max_size=3), min_size=1, max_size=3).filter(any)


def series_of(stages):
    """All readings of a device, one a second, with one between two stretches that belongs to no piece."""
    found = [value for pieces in stages for piece in pieces for stretch in piece for value in (*stretch, 1e6)]
    return Series([GpuSample(float(t_s), "a", power_w=value) for t_s, value in enumerate(found)])


def pieces_of(stages):
    """The pieces of each stage."""
    every = [stretch for pieces in stages for piece in pieces for stretch in piece]
    ends = iter(accumulate(len(one) + 1 for one in every))
    return [[_piece(stretches, ends) for stretches in pieces] for pieces in stages]


def _piece(stretches, ends):
    places = [slice(end - 1 - len(one), end - 1) for one, end in zip(stretches, ends, strict=False)]
    return Piece(tuple(Window(one.start, one.stop) for one in places), tuple(places))


def table_of(rig):
    series = {f"gpu{place}": series_of(stages) for place, stages in enumerate(rig)}
    pieces = {
        (f"gpu{place}", f"stage{number}"): own
        for place, stages in enumerate(rig)
        for number, own in enumerate(pieces_of(stages))
    }
    return PieceTable(series, pieces)


def known(stretches):
    return [value for stretch in stretches for value in stretch if value is not None]


def about(expected):
    return pytest.approx(expected, nan_ok=True, abs=1e-12)


@given(devices)
def test_the_figures_of_all_pieces_are_those_of_each(rig):
    table = table_of(rig)
    for place, stages in enumerate(rig):
        for number, pieces in enumerate(stages):
            found = PieceReadings(table, (f"gpu{place}", f"stage{number}"), "power_w")
            values = [known(stretches) for stretches in pieces]
            assert len(found.pieces) == len(pieces)
            assert found.counts.tolist() == list(map(len, values))
            for figure in ("counts", "means", "upper_medians", "lowest"):
                each = getattr(found, figure)
                extremes = found.least(figure), found.most(figure)
                assert extremes == about((float(each.min()), float(each.max())))
            assert found.values[found.known].tolist() == [value for one in values for value in one]
            assert found.means.tolist() == about([fmean(one) if one else math.nan for one in values])
            assert found.medians.tolist() == about([median(one) if one else math.nan for one in values])
            upper = [median_high(one) if one else math.nan for one in values]
            assert found.upper_medians.tolist() == about(upper)
            assert found.lowest.tolist() == about([min(one, default=math.nan) for one in values])
            highest = [max(one, default=math.nan) for one in values]
            assert found.most("highest") == about(math.nan if any(map(math.isnan, highest)) else max(highest))
            high = found.sums(found.values > 0).tolist()
            assert high == [sum(1 for value in one if value > 0) for one in values]


@given(devices)
def test_a_column_has_a_figure_for_each_piece_of_all_devices(rig):
    table = table_of(rig)
    column = table.column("power_w")
    loads = [pieces for stages in rig for pieces in stages]
    sizes = [[sum(map(len, stretches)) for stretches in pieces] for pieces in loads]
    assert column.samples.tolist() == [size for one in sizes for size in one]
    values = table.each_sample(range(len(loads)))
    assert values.tolist() == [number for number, one in enumerate(sizes) for _ in range(sum(one))]


def test_a_device_without_loads_changes_nothing_for_the_others():
    one = [[[[[1.0, 2.0, 6.0]]]]]
    alone, beside = table_of(one), table_of([[], *one])
    found = PieceReadings(beside, ("gpu1", "stage0"), "power_w")
    assert found.means.tolist() == PieceReadings(alone, ("gpu0", "stage0"), "power_w").means.tolist() == [3.0]


def test_joined_pieces_keep_all_their_stretches():
    first = Piece((Window(0, 2),), (slice(0, 3),))
    second = Piece((Window(5, 6), Window(8, 9)), (slice(5, 7), slice(8, 10)))
    joined = Piece.of([first, second])
    assert joined.stretches == (Window(0, 2), Window(5, 6), Window(8, 9))
    assert (joined.samples, joined.span, joined.length_s) == (7, Window(0, 9), 4)
    assert Piece.of([first]) is first
