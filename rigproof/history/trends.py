"""How each figure of a card went on from run to run: its levels, and since when the last one holds. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from rigproof.criteria.changes import spread_of
from rigproof.criteria.steps import Step, steps_of
from rigproof.history.reading import CONDITIONS, StoredRate

BARS = "▁▂▃▄▅▆▇█"
SHOWN = 12  # runs of a sparkline
LEAST_SPAN = 0.02  # of the median, from the lowest bar to the highest: noise looks flat


@dataclass(frozen=True, slots=True)
class Trend:
    """One figure of one card, oldest first, and where it stepped."""

    runs: tuple[StoredRate, ...]
    steps: tuple[Step, ...]

    @property
    def rates(self) -> tuple[float, ...]:
        return tuple(one.kept.rate for one in self.runs)

    @property
    def levels(self) -> tuple[tuple[float, ...], ...]:
        """The rates between two steps."""
        places = (0, *(one.place for one in self.steps), len(self.runs))
        return tuple(self.rates[begin:end] for begin, end in pairwise(places))

    @property
    def median(self) -> float:
        """Of the last level."""
        return median(self.levels[-1])

    @property
    def spread_percent(self) -> float | None:
        """The standard deviation of a run inside the levels, in %; None if no level has two runs."""
        found = spread_of(self.levels)
        return None if found is None else 100 * math.sqrt(found.variance)

    @property
    def sparkline(self) -> str:
        """The last runs, each a bar."""
        shown = self.rates[-SHOWN:]
        middle = (max(shown) + min(shown)) / 2
        span = max(max(shown) - min(shown), LEAST_SPAN * median(shown))
        places = ((one - middle) / span + 0.5 for one in shown)
        return "".join(BARS[min(len(BARS) - 1, int(place * len(BARS)))] for place in places)


def trend_of(runs: Sequence[StoredRate], figures: int) -> Trend:
    """The trend of one of so many figures: its levels are those that differ beyond doubt (`steps_of`)."""
    return Trend(tuple(runs), steps_of([one.kept.rate for one in runs], figures))


Changes = dict[str, list[tuple[str, str | None, str | None]]]


def shared_and_changed(runs: Sequence[StoredRate]) -> tuple[dict[str, str], Changes]:
    """Conditions that all runs share; and those that changed, by the file of the run: name, before, now."""
    shared: dict[str, str] = {}
    changed: Changes = {}
    for name, read in CONDITIONS.items():
        values = {read(one) for one in runs}
        if len(values) == 1 and (value := values.pop()) is not None:
            shared[name] = value
        of_card: dict[str | None, str | None] = {}
        for one in runs:
            now, before = read(one), of_card.get(one.kept.gpu_uuid, read(one))
            of_card[one.kept.gpu_uuid] = now
            if now != before and (name, before, now) not in (own := changed.setdefault(one.file, [])):
                own.append((name, before, now))
    return shared, changed
