"""The readings of one sensor of one subject, in the order of time."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.windows import Window
from rigproof.records.rows import Rows

Floats = npt.NDArray[np.float64]
FEWEST = 10  # readings that a rule needs; few enough for a rig that is sampled once a second


class Readings:
    """Readings in the order of time: `times_s` (n,), run time, and `values` (n,); none of them is NaN."""

    __slots__ = ("times_s", "values")

    def __init__(self, times_s: Floats, values: Floats) -> None:
        self.times_s, self.values = times_s, values

    @classmethod
    def of(cls, samples: Rows[Any], field: str, window: Window | None = None) -> "Readings":
        """One field of a subject's samples (`Rows.in_order_of_time`), without those that lack it."""
        where = slice(None) if window is None else places_within(samples, window)
        times_s, values = samples.column("t_s")[where], samples.column(field)[where]
        known = ~np.isnan(values)
        return cls(times_s, values) if known.all() else cls(times_s[known], values[known])

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[float, float]]) -> "Readings":
        """From pairs of run time and value that are already in the order of time."""
        table = np.asarray([*pairs], np.float64).reshape(-1, 2)
        return cls(table[:, 0], table[:, 1])

    @property
    def mean(self) -> float:
        """The mean of all values; NaN if there are none."""
        return float(self.values.sum() / len(self)) if len(self) else float("nan")

    @property
    def highest(self) -> float:
        """The highest value; minus infinity if there are none."""
        return float(self.values.max(initial=-np.inf))

    @property
    def lowest(self) -> float:
        """The lowest value; infinity if there are none."""
        return float(self.values.min(initial=np.inf))

    def __len__(self) -> int:
        """The number of readings."""
        return len(self.values)

    def __iter__(self) -> Iterator[tuple[float, float]]:
        """The pairs of run time and value."""
        return zip(self.times_s.tolist(), self.values.tolist(), strict=True)

    def by_slice(self, slices: Sequence[Window]) -> list[list[float]]:
        """The values in each of the adjacent slices."""
        if not slices:
            return []
        edges_s = [*(one.from_s for one in slices), slices[-1].to_s]
        bounds = np.searchsorted(self.times_s, edges_s).tolist()
        values = self.values.tolist()
        return [values[start:end] for start, end in pairwise(bounds)]

    def within(self, from_s: float, to_s: float) -> "Readings":
        """The readings from one moment to another, both included."""
        first, end = self.times_s.searchsorted(from_s), self.times_s.searchsorted(to_s, "right")
        return Readings(self.times_s[first:end], self.values[first:end])

    def repeated(self, shortest_s: float) -> list[tuple[int, int]]:
        """The first and the last place of each value that was read three times in a row or more, so long."""
        edges = np.flatnonzero(np.diff(self.values, prepend=np.nan, append=np.nan)).tolist()
        return [
            (first, end - 1)
            for first, end in pairwise(edges)
            if end - first >= 3 and self.times_s[end - 1] - self.times_s[first] >= shortest_s
        ]


def places_within(samples: Rows[Any], window: Window) -> slice:
    """The places of a subject's samples inside a window, its ends included; they are in the order of time."""
    times_s = samples.column("t_s")
    return slice(int(times_s.searchsorted(window.from_s)), int(times_s.searchsorted(window.to_s, "right")))


def require_finite(field: str, values: Floats) -> None:
    """NotMeasured if one of these values of a field is infinite."""
    if np.isinf(values).any():
        raise NotMeasured(f"a reading of {field} is not a finite number")
