"""What a host's cards draw at once, as far as samples show it.

Each reading is of a moment (NVML's field 186), or a mean over some milliseconds, ten times a second: a wave
of 20 Hz is sampled once in two periods, and a transient of 100 µs is never seen. So every sum is a lower
bound.
"""

from collections.abc import Sequence

import numpy as np

from rigproof.criteria.evidence.series import Floats, Readings
from rigproof.criteria.evidence.windows import Window


def together(read: Sequence[Readings], window: Window, step_s: float) -> Floats:
    """The sum of all cards' readings in each step of a window in which each card has one, in order of time.

    A card that was read more than once in a step counts with its highest reading.
    """
    number = max(0, int(np.ceil(window.length_s / step_s)))
    if not number or not read:
        return np.empty(0)
    highest = np.full((len(read), number), -np.inf)
    for place, one in enumerate(read):
        inside = (one.times_s >= window.from_s) & (one.times_s < window.to_s)
        steps = ((one.times_s[inside] - window.from_s) / step_s).astype(np.intp)
        np.maximum.at(highest[place], np.minimum(steps, number - 1), one.values[inside])
    sums = highest.sum(axis=0)
    return np.asarray(sums[np.isfinite(sums)], np.float64)
