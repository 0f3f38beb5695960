"""Reduces long series to lines of few points that still show every peak."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Line = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]
GAP_STEPS = 5.0  # a gap longer than this many median steps breaks the line


def line_of(times_s: Sequence[float], values: Sequence[float | None], points_max: int = 2000) -> Line:
    """The series as (times, values) of at most `points_max` points; NaN where the line breaks.

    Cuts time into equal buckets and keeps the lowest and highest point of each, in their order: a
    spike of one sample stays visible, which a mean would hide. None breaks the line, and so does a gap of
    over GAP_STEPS median steps. Times need not be sorted.
    """
    times = np.asarray(times_s, dtype=np.float64)
    figures = np.asarray([np.nan if value is None else value for value in values], dtype=np.float64)
    order = np.argsort(times, kind="stable")
    times, figures = _with_gaps(times[order], figures[order])
    if len(times) > points_max:
        kept = _extremes(times, figures, max(points_max // 2, 1))
        times, figures = times[kept], figures[kept]
    return times.astype(np.float32), figures.astype(np.float32)


def _with_gaps(
    times: npt.NDArray[np.float64], figures: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The series with a NaN in the middle of every gap."""
    if len(times) < 3:
        return times, figures
    steps = np.diff(times)
    gaps = np.flatnonzero(steps > max(float(np.median(steps)) * GAP_STEPS, 1.0))
    middles = (times[gaps] + times[gaps + 1]) / 2
    return np.insert(times, gaps + 1, middles), np.insert(figures, gaps + 1, np.nan)


def _extremes(
    times: npt.NDArray[np.float64], figures: npt.NDArray[np.float64], buckets: int
) -> npt.NDArray[np.intp]:
    """Indices of the lowest and highest point of each bucket; of a bucket of NaN, the first index."""
    length = times[-1] - times[0]
    place = np.zeros(len(times), dtype=np.intp)
    if length > 0:
        place = np.minimum(((times - times[0]) / length * buckets).astype(np.intp), buckets - 1)
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    kept: list[int] = []
    for start, end in zip(starts, [*starts[1:], len(times)], strict=True):
        bucket = figures[start:end]
        if np.isnan(bucket).all():
            kept.append(int(start))
        else:
            kept += sorted({int(start + np.nanargmin(bucket)), int(start + np.nanargmax(bucket))})
    return np.asarray(kept, dtype=np.intp)
