"""Where a row of rates changed to another level: piecewise constant, and beyond doubt. Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rigproof.criteria.changes import TOGETHER, Change, change

LOOKED_AT = 60  # the last runs, among which steps are looked for
LEVELS_MOST = 5  # among these


@dataclass(frozen=True, slots=True)
class Step:
    """Where a new level began: with the run of this place; `change` from the level before."""

    place: int
    change: Change


def steps_of(rates: Sequence[float], figures: int, error: float = 1 - TOGETHER) -> tuple[Step, ...]:
    """The steps of one of so many figures, oldest first: its levels are those that differ beyond doubt.

    Of all ways to divide the runs into so many levels the one counts in which they spread least inside them
    (I. E. Auger and C. E. Lawrence, Bulletin of Mathematical Biology 51, 1989). The most levels count of
    which each differs from the one before, in view of all ways and figures that were looked at. `error`: the
    probability that one of all figures has a step which is none.
    """
    first = max(0, len(rates) - LOOKED_AT)
    rates = rates[first:]
    for places in _divisions(rates):
        ways = math.comb(len(rates) - 1, len(places))
        levels = [rates[begin:end] for begin, end in pairwise((0, *places, len(rates)))]
        changes = [
            change(
                levels[number],
                levels[number + 1],
                levels[:number] + levels[number + 2 :],
                ways * figures,
                error,
            )
            for number in range(len(places))
        ]
        if all(one.answer in ("slower", "faster") for one in changes):
            return tuple(Step(first + place, found) for place, found in zip(places, changes, strict=True))
    raise AssertionError("one level has no step that could be in doubt")


def _divisions(rates: Sequence[float]) -> Iterator[tuple[int, ...]]:
    """Where each best division into levels begins a new one, from the most levels down to a single one."""
    logs, size = np.log(rates), len(rates)
    logs -= logs.mean()
    sums, squares = (np.append(0.0, np.cumsum(one)) for one in (logs, logs**2))
    begins, ends = np.arange(size)[:, None], np.arange(1, size + 1)
    # How far the runs from `begins` to before `ends` spread.
    lengths = np.maximum(1, ends - begins)
    inside = squares[ends] - squares[begins] - (sums[ends] - sums[begins]) ** 2 / lengths
    inside[ends <= begins] = np.inf
    best, firsts = inside[0], []  # of the runs before each end, in so many levels
    found: list[tuple[int, ...]] = [()]
    for _ in range(2, min(LEVELS_MOST, size) + 1):
        total = np.append(np.inf, best[:-1])[:, None] + inside
        firsts.append(total.argmin(axis=0))
        best, places = total.min(axis=0), [size]
        for first in reversed(firsts):
            places.append(int(first[places[-1] - 1]))
        found.append(tuple(places[:0:-1]))
    yield from reversed(found)
