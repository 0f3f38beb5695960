"""Reduces long series to lines of few points that still show every peak."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Line = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]
GAP_STEPS = 5.0  # a gap longer than this many median steps breaks the line


def line_of(
    times_s: Sequence[float] | Floats, values: Sequence[float | None] | Floats, points_max: int = 2000
) -> Line:
    """The series as (times, values) of at most `points_max` points; NaN where the line breaks.

    Cuts time into equal buckets and keeps the lowest and highest point of each, in their order: a
    spike of one sample stays visible, which a mean would hide. None and NaN break the line, and so does a gap
    of over GAP_STEPS median steps. Times need not be sorted.
    """
    times = np.asarray(times_s, dtype=np.float64)
    figures = np.asarray(values, dtype=np.float64)  # NaN for None
    order = np.argsort(times, kind="stable")
    times, figures = _with_gaps(times[order], figures[order])
    if len(times) > points_max:
        kept = _extremes(times, figures, max(points_max // 2, 1))
        times, figures = times[kept], figures[kept]
    return times.astype(np.float32), figures.astype(np.float32)


def _with_gaps(times: Floats, figures: Floats) -> tuple[Floats, Floats]:
    """The series with a NaN in the middle of every gap."""
    if len(times) < 3:
        return times, figures
    steps = np.diff(times)
    gaps = np.flatnonzero(steps > max(float(np.median(steps)) * GAP_STEPS, 1.0))
    middles = (times[gaps] + times[gaps + 1]) / 2
    return np.insert(times, gaps + 1, middles), np.insert(figures, gaps + 1, np.nan)


def _extremes(times: Floats, figures: Floats, buckets: int) -> npt.NDArray[np.intp]:
    """Indices of the lowest and highest point of each bucket; of a bucket of NaN, the first index."""
    length = times[-1] - times[0]
    place = np.zeros(len(times), dtype=np.intp)
    if length > 0:
        place = np.minimum(((times - times[0]) / length * buckets).astype(np.intp), buckets - 1)
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    # The buckets stay where they are, and in each of them its lowest or highest point comes first, NaN last.
    lowest, highest = (np.lexsort((one, place))[starts] for one in (figures, -figures))
    return np.unique(np.concatenate((lowest, highest)))
