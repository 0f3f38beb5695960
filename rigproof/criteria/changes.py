"""Is one set of rates lower than another? Pure statistics of a few runs.

Rates are compared by their logarithms, so that a change is a ratio: halved and doubled are as far apart.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from scipy.special import stdtrit

FEWEST_RUNS = 3  # of a side, for its own spread
FEWEST_FREEDOM = 4  # degrees of it: three runs on each side, or fewer and other runs of that card
LEAST_SPREAD = 0.0005  # of a run: no card is known better
TOGETHER = 0.95  # the probability that all intervals of a comparison hold

Answer = Literal["slower", "faster", "no difference shown", "too few runs to tell"]


@dataclass(frozen=True, slots=True)
class Spread:
    """The variance of a single run's logarithm among runs alike, with its degrees of freedom."""

    variance: float
    freedom: int


@dataclass(frozen=True, slots=True)
class Change:
    """From one set to another, in %; `low` and `high` are the interval's, None if there are too few runs."""

    percent: float
    low: float | None = None
    high: float | None = None

    @property
    def answer(self) -> Answer:
        if self.low is None or self.high is None:
            return "too few runs to tell"
        return "slower" if self.high < 0 else "faster" if self.low > 0 else "no difference shown"


def spread_of(groups: Iterable[Sequence[float]]) -> Spread | None:
    """The spread inside groups of rates, each measured under conditions of its own. None if none has two."""
    variance_sum, freedom = 0.0, 0
    for logs in (list(map(math.log, group)) for group in groups):
        mean = math.fsum(logs) / len(logs) if logs else 0.0
        variance_sum += math.fsum((one - mean) ** 2 for one in logs)
        freedom += max(0, len(logs) - 1)
    return Spread(variance_sum / freedom, freedom) if freedom else None


def change(
    before: Sequence[float],
    after: Sequence[float],
    others: Iterable[Sequence[float]],
    comparisons: int,
    error: float = 1 - TOGETHER,
) -> Change:
    """The change of the geometric mean, with an interval that holds together with those of all `comparisons`.

    Student's t with the spread inside `before`, `after` and `others`, groups of the card's other runs, each
    measured under conditions of its own: all of them are taken to spread alike. As they may not, a side with
    three runs whose own spread is larger has the last word. Each has Bonferroni's share of the error.
    """
    logs = [[math.log(one) for one in rates] for rates in (before, after)]
    means = [math.fsum(one) / len(one) for one in logs]
    difference = means[1] - means[0]
    spread = spread_of([before, after, *others])
    if spread is None or spread.freedom < FEWEST_FREEDOM:
        return Change(_percent(difference))
    sides = [side for side in (before, after) if len(side) >= FEWEST_RUNS]
    own = [one.variance for side in sides if (one := spread_of([side])) is not None]
    variance = max(spread.variance, *own, LEAST_SPREAD**2) * (1 / len(before) + 1 / len(after))
    half = -float(stdtrit(spread.freedom, error / 2 / comparisons)) * math.sqrt(variance)
    return Change(_percent(difference), _percent(difference - half), _percent(difference + half))


def _percent(difference: float) -> float:
    return math.expm1(min(difference, 50.0)) * 100
