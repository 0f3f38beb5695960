"""Readings of one sensor over time, as two arrays: most users need only the times or only the values."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
FEWEST = 10  # readings that a rule needs; few enough for a rig that is sampled once a second


class Readings:
    """Readings in the order of time: `times_s` (n,), run time, and `values` (n,); none of them is NaN."""

    __slots__ = ("times_s", "values")

    def __init__(self, times_s: Floats, values: Floats) -> None:
        self.times_s, self.values = times_s, values

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[float, float]]) -> "Readings":
        """From pairs of run time and value that are already in the order of time."""
        table = np.asarray([*pairs], np.float64).reshape(-1, 2)
        return cls(table[:, 0], table[:, 1])

    @property
    def mean(self) -> float:
        """Of all values; NaN if there is none."""
        return float(self.values.sum() / len(self)) if len(self) else float("nan")

    @property
    def highest(self) -> float:
        """Of all values; minus infinity if there is none."""
        return float(self.values.max(initial=-np.inf))

    @property
    def lowest(self) -> float:
        """Of all values; infinity if there is none."""
        return float(self.values.min(initial=np.inf))

    def __len__(self) -> int:
        """The number of readings."""
        return len(self.values)

    def __iter__(self) -> Iterator[tuple[float, float]]:
        """The pairs of run time and value."""
        return zip(self.times_s.tolist(), self.values.tolist(), strict=True)

    def within(self, from_s: float, to_s: float) -> "Readings":
        """Those from one moment to another, both included."""
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
