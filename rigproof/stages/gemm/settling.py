"""Decides when a rate has settled."""

from collections import deque
from itertools import islice

WINDOW_S = 1.0
LEAST_S = 2.0
AGREEMENT = 0.01


class Settling:
    """Watches warm-up rounds until the rate is steady, or its time limit is reached.

    Steady: the mean rate of about the last second lies within 1 % of that of the second before,
    and at least 2 s have passed (or `limit_s`, if that is shorter).
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._rounds: deque[tuple[float, float]] = deque()  # seconds, work; the latest first
        self.steady = False  # whether the last two windows agree; both must be full

    def add(self, seconds: float, work: float) -> None:
        """Add a round: its seconds of device time, and its work."""
        self._rounds.appendleft((seconds, work))
        late_s, late, used = self._window(0)
        early_s, early, used = self._window(used)
        while len(self._rounds) > used:
            self._rounds.pop()
        full = late_s >= WINDOW_S and early_s >= WINDOW_S
        self.steady = full and abs(late / late_s - early / early_s) <= AGREEMENT * (early / early_s)

    def done(self, passed_s: float) -> bool:
        """Whether warm-up ends, `passed_s` after it began."""
        return passed_s >= self._limit_s or (passed_s >= LEAST_S and self.steady)

    def _window(self, first: int) -> tuple[float, float, int]:
        """Seconds and work of the window that starts at round `first`, and the index after its last round."""
        seconds = work = 0.0
        for place, (round_s, round_work) in enumerate(islice(self._rounds, first, None), start=first):
            if seconds >= WINDOW_S:
                return seconds, work, place
            seconds, work = seconds + round_s, work + round_work
        return seconds, work, len(self._rounds)
