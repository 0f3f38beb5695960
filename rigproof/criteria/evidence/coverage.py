"""Whether readings cover a stretch of load: with too few of them, or a gap, it was not measured."""

import math

import numpy as np

from rigproof.criteria.criterion import Limit, NotMeasured
from rigproof.criteria.evidence.readings import Floats
from rigproof.criteria.evidence.windows import Window
from rigproof.records.verdict import count_of

# Between two readings; 0.12 s was the longest at 10 Hz on H100 and H200. The second is for a slow grid.
LONGEST_GAP_S, GAP_STEPS = 2.0, 3
ROUNDING = 1e-6  # of a grid point


def require_coverage(times_s: Floats, window: Window, limit: Limit, rate_hz: float, what: str) -> None:
    """NotMeasured if `uncovered`."""
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
