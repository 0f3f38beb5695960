"""Stretches of run time, the work done in them, and whether readings cover them."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rigproof.criteria.criterion import Limit, NotMeasured
from rigproof.records.columns import Floats
from rigproof.records.verdict import count_of

# No run takes a week. A longer stretch means that the clock jumped, and would have endless slices.
LONGEST_S = 7 * 86400.0
NUDGE = 1e-6  # keeps the last slice if a length is a multiple of the width except for rounding
# Between two readings; 0.12 s was the longest at 10 Hz on H100 and H200. The second is for a slow grid.
LONGEST_GAP_S, GAP_STEPS = 2.0, 3
ROUNDING = 1e-6  # of a grid point


class Window(NamedTuple):
    """From `from_s` to `to_s`, run time. `complete` is False if the load was aborted inside it.

    Thousands are made for each device: a dataclass would take three times as long.
    """

    from_s: float
    to_s: float
    complete: bool = True

    @property
    def length_s(self) -> float:
        """Its length, s."""
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


def require_coverage(times_s: Floats, window: Window, limit: Limit, rate_hz: float, what: str) -> None:
    """Raise NotMeasured if the readings leave too much of the window `uncovered`."""
    reason = uncovered(times_s, window, limit, rate_hz)
    if reason:
        raise NotMeasured(reason.format(what=what))


def uncovered(times_s: Floats, window: Window, limit: Limit, rate_hz: float) -> str:
    """Why readings at these times do not cover the window, with {what} was read; empty if they do.

    They do if at least the share `limit` of the points due on a grid of `rate_hz` gave a reading, and no gap
    is longer than LONGEST_GAP_S and GAP_STEPS of its points.
    """
    # So many grid points are in a window of that length, wherever it begins; there may be one more.
    due, count = math.floor(window.length_s * rate_hz + ROUNDING), len(times_s)
    if count == 0:
        return "no {what} was read under load"
    gap_s, from_s = _longest_gap(times_s, window)
    if gap_s > max(LONGEST_GAP_S, GAP_STEPS / rate_hz):
        return f"no {{what}} was read for {gap_s:.1f} s under load, from t={from_s:.0f} s on"
    if count < limit.value * due:
        return (
            f"only {count} of the {count_of(due, 'readings')} of {{what}} due under load, "
            f"which is under {limit.value * 100:.0f} %"
        )
    return ""


def _longest_gap(times_s: Floats, window: Window) -> tuple[float, float]:
    """The longest gap in a window's readings, and when it begins; rising times inside the window."""
    edges_s = np.concatenate(((window.from_s,), times_s, (window.to_s,)))
    gaps_s = edges_s[1:] - edges_s[:-1]
    place = int(gaps_s.argmax())
    return float(gaps_s[place]), float(edges_s[place])
