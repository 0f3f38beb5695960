import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rigproof.report.page.downsample import line_of


def points(line):
    return [(round(float(t), 3), None if math.isnan(v) else float(v)) for t, v in zip(*line, strict=True)]


def test_a_short_series_stays_as_it_is_in_the_order_of_time():
    assert points(line_of([2.0, 1.0, 3.0], [20, 10, None])) == [(1, 10), (2, 20), (3, None)]
    assert points(line_of([], [])) == []


def test_a_spike_of_one_sample_survives():
    values = [50.0] * 36000
    values[12345] = 99.0
    values[23456] = 1.0
    times, figures = line_of([number / 10 for number in range(36000)], values, 2000)
    assert len(times) <= 2000
    assert figures.max() == 99
    assert figures.min() == 1
    assert abs(times[figures.argmax()] - 1234.5) < 1e-3


def test_a_hole_is_drawn_as_a_hole():
    assert points(line_of([0, 1, 2, 12, 13, 14], [1, 1, 1, 1, 1, 1])) == [
        (0, 1), (1, 1), (2, 1), (7, None), (12, 1), (13, 1), (14, 1),
    ]  # fmt: skip


def test_a_long_break_stays_a_break():
    values = [1.0] * 1000 + [None] * 1000 + [1.0] * 1000
    _, figures = line_of(list(range(3000)), values, 200)
    assert np.isnan(figures).any()
    assert len(figures) <= 200


@given(
    st.lists(st.tuples(st.floats(0, 1e4), st.none() | st.floats(-1e6, 1e6)), max_size=300),
    st.integers(2, 100),
)
def test_never_too_long_and_the_extremes_stay(series, most):
    times, figures = line_of([t for t, _ in series], [v for _, v in series], most)
    known = [v for _, v in series if v is not None]
    assert len(times) <= max(most, 2)
    assert list(times) == sorted(times)
    if known:
        assert np.nanmax(figures) == np.float32(max(known))
        assert np.nanmin(figures) == np.float32(min(known))
