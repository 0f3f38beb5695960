"""Whether a temperature follows the power that a card draws: rule 4 of sensors.py."""

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from rigproof.criteria.evidence.readings import FEWEST, Floats, Readings
from rigproof.criteria.evidence.sensor_times import LOAD_RATIO

STEP_SHARE, STEP_STILL_S = 0.30, 20.0  # of the highest power of the run; how long a temperature may ignore it
CHANGE_SHARE, CHANGE_MEAN_S = 0.50, 5  # of the highest mean over so long: pauses between stages are as short
CHANGE_STILL_S = 15.0
SHORTEST_STILL_S = CHANGE_MEAN_S + CHANGE_STILL_S  # of a value that a change may show to be frozen
NEVER_MOVED_S = 30.0
BEFORE_STEP_S = 5  # a shorter pause does not change a warm card's temperature by a whole degree
RISE_S = 2  # of a step, from one level to the other


class Drawn:
    """The power in every second from `from_s` on, (n,), and the means over CHANGE_MEAN_S."""

    def __init__(self, power: Readings, from_s: float, to_s: float) -> None:
        self.seconds_s = np.arange(from_s, to_s)
        self.power_w = np.interp(self.seconds_s, power.times_s, power.values)
        self.means_w = np.convolve(self.power_w, np.full(CHANGE_MEAN_S, 1 / CHANGE_MEAN_S), "valid")
        self.highest_w, self.highest_mean_w = float(self.power_w.max()), float(self.means_w.max())

    @cached_property
    def steps(self) -> list[tuple[float, float, float]]:
        """Each lasting step: when it ends, and the mean power before and after it."""
        power_w, least_w = self.power_w, STEP_SHARE * self.highest_w
        after = int(STEP_STILL_S)
        (places,) = (np.abs(power_w[RISE_S:] - power_w[:-RISE_S]) >= least_w).nonzero()
        found = []
        for place in places.tolist():
            begun = place + RISE_S
            before_w, lasting_w = (
                power_w[place + 1 - BEFORE_STEP_S : place + 1],
                power_w[begun : begun + after],
            )
            if len(before_w) < BEFORE_STEP_S or len(lasting_w) < after:
                continue
            if (np.abs(lasting_w[:, None] - before_w) >= least_w).all():
                found.append((float(self.seconds_s[begun]), float(before_w.mean()), float(lasting_w.mean())))
        return found


def still_since(
    pairs: Readings, repeated: Sequence[tuple[int, int]], drawn: Drawn
) -> tuple[float, str] | None:
    """When a temperature that ignores the power began to stand still, and what it reads; None if it follows.

    Minus infinity if it never moved. `repeated`: the first and last place of each value of SHORTEST_STILL_S.
    """
    times_s, values = pairs.times_s, pairs.values
    never_moved = pairs.lowest == pairs.highest and times_s[-1] - times_s[0] >= NEVER_MOVED_S
    if never_moved and drawn.highest_w > LOAD_RATIO * drawn.power_w.min():
        return -math.inf, f"reads {values[0]:g} °C during the whole run"
    return _ignored_change(times_s, values, repeated, drawn) or _ignored_step(times_s, values, drawn)


def _ignored_change(
    times_s: Floats, values: Floats, repeated: Sequence[tuple[int, int]], drawn: Drawn
) -> tuple[float, str] | None:
    """When a value began that stayed constant although the mean power had changed, and what to report."""
    begun_s = drawn.seconds_s[0]
    for first, last in repeated:
        from_s, to_s = float(times_s[first]), float(times_s[last])
        begin, end = math.ceil(from_s - begun_s), math.floor(to_s - begun_s) - CHANGE_MEAN_S + 1
        during_w = drawn.means_w[begin:end]
        spans_w = np.maximum.accumulate(during_w) - np.minimum.accumulate(during_w)
        changed = np.flatnonzero(spans_w >= CHANGE_SHARE * drawn.highest_mean_w)
        if not len(changed):
            continue
        changed_s = begin + begun_s + changed[0] + CHANGE_MEAN_S
        if to_s - changed_s >= CHANGE_STILL_S:
            least_w, most_w = during_w.min(), during_w.max()
            return from_s, (
                f"reads {values[first]:g} °C for {to_s - from_s:.0f} s from t={from_s:.0f} s on, while the "
                f"{CHANGE_MEAN_S} s mean of the power varied between {least_w:.0f} and {most_w:.0f} W"
            )
    return None


def _ignored_step(times_s: Floats, values: Floats, drawn: Drawn) -> tuple[float, str] | None:
    """The same of a value that stayed constant after a lasting step: when the step ended."""
    for begun_s, before_w, after_w in drawn.steps:
        first, end = times_s.searchsorted(begun_s), times_s.searchsorted(begun_s + STEP_STILL_S, "right")
        if end - first >= FEWEST and (values[first:end] == values[first]).all():
            return begun_s, (
                f"reads {values[first]:g} °C for {STEP_STILL_S:.0f} s after the power went from "
                f"{before_w:.0f} to {after_w:.0f} W at t={begun_s:.0f} s"
            )
    return None
