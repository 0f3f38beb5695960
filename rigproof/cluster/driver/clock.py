"""How far another process's monotonic clock is from run time. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """Run time when a request was sent and answered, and the other clock as read in between."""

    sent_s: float
    answered_s: float
    remote_s: float


def clock_offset(round_trips: Iterable[RoundTrip]) -> tuple[float, float]:
    """(offset, error): run time = the other clock + offset ± error, both in seconds.

    Taken from the shortest round trip: the other clock was read in its middle, give or take half its length
    (Cristian's algorithm, 1989). ValueError without a reading.
    """
    best = min(round_trips, key=lambda one: one.answered_s - one.sent_s)
    middle_s = (best.sent_s + best.answered_s) / 2
    return middle_s - best.remote_s, (best.answered_s - best.sent_s) / 2
