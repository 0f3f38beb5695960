"""Whether the load shows in the power when the work was done: rule 5 of sensors.py."""

import math

import numpy as np
import numpy.typing as npt

from rigproof.criteria.evidence.readings import FEWEST, Floats, Readings
from rigproof.criteria.evidence.rounds import Rounds

SHIFT_S = 2.0  # NVML's average lags by about one second
EARLY_S = 0.5  # no card fails by readings that are so early; on H100 and H200 they were 0.04 s early at most
LONGEST_SHIFT_S = 10.0  # a card that draws nothing for longer is idle, which activity.gpu_active reports
LOAD_RATIO = 2.0  # power under load against before: with less, the step cannot be located
SETTLING_S = 3.0
STOP_RATIO = 1.25  # power before the last round's end against the lowest after: with less, no stop is visible


def out_of_time(rounds: Rounds, power: Readings, early_s: float = SHIFT_S) -> str:
    """Why a card's readings are not from the time of its rounds; empty if they are.

    `early_s`: by how much power may rise before the first round: what sets the work up may draw some.
    """
    if not len(rounds) or len(power) < FEWEST:
        return ""
    stages, begins_s, ends_s = rounds.all("stage"), rounds.begins_s, rounds.t_s
    begun, ended = int(begins_s.argmin()), int(ends_s.argmax())
    first_s, last_s = float(begins_s[begun]), float(ends_s[ended])
    times_s, power_w = power.times_s, power.values
    # Late readings show the idle time before the load in place of the load's beginning.
    idle_w = float(power_w[times_s < first_s + LONGEST_SHIFT_S].min(initial=math.inf))
    own = (rounds.same("stage", stages[place]) for place in (begun, ended))
    first, last = (_high(power, begins_s[one].min(), ends_s[one].max(), idle_w) for one in own)
    apart_s = _nearest(times_s[1:][first[1:] & ~first[:-1]], first_s)
    apart = not -early_s <= apart_s <= SHIFT_S and abs(apart_s) <= LONGEST_SHIFT_S
    if times_s[0] <= first_s + SHIFT_S and not first[0] and apart:
        return (
            f"its power rises at t={first_s + apart_s:.1f} s and its first round began at t={first_s:.1f} s: "
            "the readings are not from the time of the work"
        )
    apart_s = _nearest(times_s[:-1][last[:-1] & ~last[1:]], last_s)
    if times_s[-1] >= last_s and not last[-1] and -LONGEST_SHIFT_S <= apart_s < -SHIFT_S:
        after = times_s > last_s
        slowed_w = _median(power_w[(times_s > last_s + apart_s) & ~after])
        if slowed_w > STOP_RATIO * power_w[after].min(initial=math.inf):
            return ""
        return (
            f"its power falls at t={last_s + apart_s:.1f} s and its last round ended at t={last_s:.1f} s: "
            "the readings are not from the time of the work"
        )
    return ""


def _high(power: Readings, begun_s: float, ended_s: float, idle_w: float) -> npt.NDArray[np.bool_]:
    """The readings that are nearer to the power of such a load than to idle; none if both are similar."""
    loaded = power.values[(power.times_s >= begun_s + SETTLING_S) & (power.times_s <= ended_s)]
    loaded_w = _median(loaded) if len(loaded) >= FEWEST else 0.0
    return power.values > ((idle_w + loaded_w) / 2 if loaded_w >= LOAD_RATIO * idle_w else math.inf)


def _median(values: Floats) -> float:
    """NaN if there is no value; np.median takes ten times as long for a few hundred."""
    ordered, half = np.sort(values), len(values) // 2
    return float(ordered[half] + ordered[-half - 1]) / 2 if len(values) else math.nan


def _nearest(times_s: Floats, moment_s: float) -> float:
    """How far from a moment the nearest time is, s; infinity if there is none."""
    apart_s = times_s - moment_s
    return float(apart_s[np.argmin(np.abs(apart_s))]) if len(apart_s) else math.inf
