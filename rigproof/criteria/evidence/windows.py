"""Stretches of run time: a stage's loaded window, its slices, and the work done inside them."""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rigproof.criteria.evidence.readings import Floats, Readings
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.spans import Ids

# No run takes a week. A longer stretch means that the clock jumped, and would have endless slices.
LONGEST_S = 7 * 86400.0
Moments = npt.NDArray[np.float64] | npt.NDArray[np.complex128]
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
        return _slices(self.from_s, self.to_s, width_s)


@lru_cache(maxsize=64)  # the stage's window is the same for all devices
def _slices(from_s: float, to_s: float, width_s: float) -> tuple[Window, ...]:
    number = max(0, math.floor((to_s - from_s) / width_s + NUDGE))
    starts = [from_s + index * width_s for index in range(number)]
    return tuple(Window(start, start + width_s) for start in starts)


def slice_edges(
    from_s: Floats, to_s: Floats, width_s: float | Floats
) -> tuple[Floats, Floats, npt.NDArray[np.intp]]:
    """When each whole slice of that width of these stretches begins and ends, as in `Window.slices`.

    And the place of its stretch, (n,) each.
    """
    numbers = np.maximum(0, np.floor((to_s - from_s) / width_s + NUDGE)).astype(np.intp)
    stretches = np.repeat(np.arange(len(numbers)), numbers)
    places = np.arange(len(stretches)) - (np.cumsum(numbers) - numbers)[stretches]
    widths_s = np.broadcast_to(width_s, numbers.shape)[stretches]
    starts_s = from_s[stretches] + places * widths_s
    return starts_s, starts_s + widths_s, stretches


def without_work(begins: Moments, ends: Moments, from_: Moments, to: Moments) -> npt.NDArray[np.bool_]:
    """For each span, whether no round overlaps it; `begins` and `ends` are of rounds of positive length.

    All four are run times. Of several devices they are complex numbers, with the time as imaginary part and
    the device's number as real part, which numpy compares first: so its rounds are held against its spans.
    """
    begun = np.sort(begins).searchsorted(to)  # before its end
    ended = np.sort(ends).searchsorted(from_, "right")  # by its begin
    idle: npt.NDArray[np.bool_] = begun == ended
    return idle


def work_by_slice(rounds: Rounds, slices: Sequence[Window]) -> list[float]:
    """The work done in each of the adjacent, equal slices; a round counts in proportion to its overlap."""
    if not slices:
        return []
    group = np.zeros(len(rounds), np.intp)
    origin_s, width_s = (np.asarray([one]) for one in (slices[0].from_s, slices[0].length_s))
    work: list[float] = work_of_groups(rounds, group, origin_s, width_s, np.asarray([len(slices)])).tolist()
    return work


def work_of_groups(rounds: Rounds, groups: Ids, origins_s: Floats, widths_s: Floats, numbers: Ids) -> Floats:
    """The same for the slices of several groups of rounds, group by group; `groups` are (n,) numbers.

    Each group has `numbers` slices of `widths_s` from `origins_s` on. Linear in the number of rounds, which
    must have positive, finite lengths.
    """
    ends_s, begins_s, origin_s, width_s = rounds.t_s, rounds.begins_s, origins_s[groups], widths_s[groups]
    first = np.clip(np.floor((begins_s - origin_s) / width_s), 0, numbers[groups]).astype(np.int64)
    last = np.clip(np.floor((ends_s - origin_s) / width_s), -1, numbers[groups] - 1).astype(np.int64)
    # One row for each slice that a round touches.
    touched = np.maximum(0, last - first + 1)
    rows = np.repeat(np.arange(len(rounds)), touched)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(touched) - touched, touched) + first[rows]
    from_s = origin_s[rows] + places * width_s[rows]
    overlaps_s = np.minimum(ends_s[rows], from_s + width_s[rows]) - np.maximum(begins_s[rows], from_s)
    done = np.where(overlaps_s > 0, rounds.work[rows] * overlaps_s / rounds.seconds[rows], 0.0)
    places += (np.cumsum(numbers) - numbers)[groups[rows]]
    return np.asarray(np.bincount(places, done, numbers.sum()), np.float64)


def values_by_slice(readings: Readings, slices: Sequence[Window]) -> list[list[float]]:
    """The values in each of the adjacent slices."""
    if not slices:
        return []
    edges_s = [*(piece.from_s for piece in slices), slices[-1].to_s]
    bounds = np.searchsorted(readings.times_s, edges_s).tolist()
    values = readings.values.tolist()
    return [values[start:end] for start, end in pairwise(bounds)]
