"""Is a new rate lower than a card's own earlier ones? Pure statistics of one figure; rates oldest first."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from rigproof.criteria.changes import FEWEST_RUNS, change
from rigproof.criteria.steps import steps_of

LASTING_RUNS = 5  # of a level that others are held against


@dataclass(frozen=True, slots=True)
class Compared:
    """A rate against `before`, the level of the runs before. It fell if it is below `least`, in its unit.

    `since`: the place of the run with which a lower level began, if it fell together with those after it.
    """

    now: float
    before: float
    least: float
    since: int | None = None

    @property
    def fell(self) -> bool:
        return self.now < self.least

    @property
    def loss(self) -> float:
        """The share that is lost; negative if it gained."""
        return 1 - self.now / self.before


def compared(earlier: Sequence[float], now: float, tests: int, error: float, share: float) -> Compared | None:
    """The new rate against the earlier ones; None if these are too few to tell their spread.

    Two tests have half of the `error` each, the probability of a false alarm in a run of so many `tests`: the
    new rate alone against the last level (Student's t for one new value, with the card's own spread); and the
    level that the new one ends against the best one before (`steps_of`), for losses of which no run is low
    enough alone. Only losses count, of `share` or more: each test has one side of an interval.
    """
    *others, last = _lasting(_levels(earlier, tests, error))
    before, least = _mean(last), 1 - share
    alone = change(last, [before], others, tests, error)
    if alone.high is None:
        return None
    found = Compared(now, before, before * min(least, 1 / (1 + alone.high / 100)))
    *levels, last = _levels([*earlier, now], tests, error)
    levels = [one for one in _lasting(levels) if len(one) >= LASTING_RUNS]
    if found.fell or not levels or len(last) < FEWEST_RUNS:
        return found
    best = max(levels, key=_mean)
    ways = math.comb(len(earlier), len(levels)) * tests
    lost = change(best, last, [one for one in levels if one is not best], ways, error)
    if lost.answer != "slower":
        return found
    lower = Compared(_mean(last), _mean(best), _mean(best) * least, len(earlier) + 1 - len(last))
    return lower if lower.fell else found


def _lasting(levels: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    """The levels; what is too short for one, such as a run that was wild, belongs to the one before."""
    found: list[Sequence[float]] = []
    for level in levels:
        if found and min(len(level), len(found[-1])) < LASTING_RUNS:
            found[-1] = [*found[-1], *level]
        else:
            found.append(level)
    return found


def _levels(rates: Sequence[float], tests: int, error: float) -> list[Sequence[float]]:
    places = (0, *(one.place for one in steps_of(rates, tests, error)), len(rates))
    return [rates[begin:end] for begin, end in pairwise(places)]


def _mean(rates: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(fmean(map(math.log, rates)))
