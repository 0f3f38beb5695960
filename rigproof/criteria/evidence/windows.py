"""Stretches of run time: a stage's loaded window, its slices, and the work done inside them."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rigproof.criteria.evidence.readings import Floats, Readings

# No run takes a week. A longer stretch means that the clock jumped, and would have endless slices.
LONGEST_S = 7 * 86400.0
NUDGE = 1e-6  # keeps the last slice if a length is a multiple of the width except for rounding


class Window(NamedTuple):
    """From `from_s` to `to_s`, run time. `complete` is False if the load was aborted inside it.

    Thousands are made for each device: a dataclass would take three times as long.
    """

    from_s: float
    to_s: float
    complete: bool = True

    @property
    def length_s(self) -> float:
        """Seconds."""
        return self.to_s - self.from_s

    def slices(self, width_s: float) -> tuple["Window", ...]:
        """The whole slices of that width, from the start; a shorter remainder is left out."""
        number = max(0, math.floor(self.length_s / width_s + NUDGE))
        starts_s = [self.from_s + index * width_s for index in range(number)]
        return tuple(Window(start_s, start_s + width_s) for start_s in starts_s)

    def parts(self, number: int) -> tuple["Window", ...]:
        """So many equal parts."""
        return self.slices(self.length_s / number) if number and self.length_s > 0 else ()


def without_work(begins_s: Floats, ends_s: Floats, slices: Sequence[Window]) -> npt.NDArray[np.bool_]:
    """For each slice, whether no work overlaps it; `begins_s` and `ends_s` (n,) are of work, in any order."""
    from_s, to_s = (np.asarray([getattr(one, edge) for one in slices]) for edge in ("from_s", "to_s"))
    begun = np.sort(begins_s).searchsorted(to_s)  # before its end
    ended = np.sort(ends_s).searchsorted(from_s, "right")  # by its begin
    idle: npt.NDArray[np.bool_] = begun == ended
    return idle


def work_by_slice(begins_s: Floats, ends_s: Floats, rates: Floats, slices: Sequence[Window]) -> list[float]:
    """The work done in each slice; (n,) are the rounds, each with its rate from its begin to its end."""
    overlaps_s = ((np.minimum(ends_s, one.to_s) - np.maximum(begins_s, one.from_s)).clip(0) for one in slices)
    return [float((rates * one).sum()) for one in overlaps_s]


def values_by_slice(readings: Readings, slices: Sequence[Window]) -> list[list[float]]:
    """The values in each of the adjacent slices."""
    if not slices:
        return []
    edges_s = [*(piece.from_s for piece in slices), slices[-1].to_s]
    bounds = np.searchsorted(readings.times_s, edges_s).tolist()
    values = readings.values.tolist()
    return [values[start:end] for start, end in pairwise(bounds)]
