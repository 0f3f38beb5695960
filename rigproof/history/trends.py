"""How each figure of a card went on from run to run: its levels, and since when the last one holds. Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import median

from rigproof.history.changes import Change, change, spread_of
from rigproof.history.reading import CONDITIONS, StoredRate

BARS = "▁▂▃▄▅▆▇█"
SHOWN = 12  # runs of a sparkline
LOOKED_AT = 60  # the last runs, among which steps are looked for
LEVELS_MOST = 5  # among these
LEAST_SPAN = 0.02  # of the median, from the lowest bar to the highest: noise looks flat


@dataclass(frozen=True, slots=True)
class Step:
    """Where a new level began: with the run of this place; `change` from the level before."""

    place: int
    change: Change


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
    """The trend of one of so many figures: its levels are those that differ beyond doubt.

    Of all ways to divide the runs into so many levels the one counts in which they spread least inside them
    (I. E. Auger and C. E. Lawrence, Bulletin of Mathematical Biology 51, 1989). The most levels count of
    which each differs from the one before, in view of all ways and figures that were looked at.
    """
    first = max(0, len(runs) - LOOKED_AT)
    rates = [one.kept.rate for one in runs[first:]]
    for places in _divisions(rates):
        ways = math.comb(len(rates) - 1, len(places))
        levels = [rates[begin:end] for begin, end in pairwise((0, *places, len(rates)))]
        changes = [
            change(levels[number], levels[number + 1], levels[:number] + levels[number + 2 :], ways * figures)
            for number in range(len(places))
        ]
        if all(one.answer in ("slower", "faster") for one in changes):
            steps = zip(places, changes, strict=True)
            return Trend(tuple(runs), tuple(Step(first + place, found) for place, found in steps))
    raise AssertionError("one level has no step that could be in doubt")


def _divisions(rates: Sequence[float]) -> Iterator[tuple[int, ...]]:
    """Where each best division into levels begins a new one, from the most levels down to a single one."""
    logs = [math.log(one) for one in rates]
    sums, squares = [0.0, *accumulate(logs)], [0.0, *accumulate(one * one for one in logs)]

    def inside(begin: int, end: int) -> float:
        total = sums[end] - sums[begin]
        return squares[end] - squares[begin] - total * total / (end - begin)

    size = len(rates)
    # How far the runs before `end` spread in so many levels, and where these begin: [levels - 1][end - 1].
    best: list[list[tuple[float, tuple[int, ...]]]] = [[(inside(0, end), (0,)) for end in range(1, size + 1)]]
    for levels in range(2, min(LEVELS_MOST, size) + 1):
        before = best[-1]
        best.append(
            [
                min(
                    (before[begin - 1][0] + inside(begin, end), (*before[begin - 1][1], begin))
                    for begin in range(levels - 1, end)
                )
                if end >= levels
                else before[end - 1]
                for end in range(1, size + 1)
            ]
        )
    for of_levels in reversed(best):
        yield of_levels[-1][1][1:]


Changes = dict[str, list[tuple[str, str | None, str | None]]]


def shared_and_changed(runs: Sequence[StoredRate]) -> tuple[dict[str, str], Changes]:
    """Conditions that all runs share; and those that changed, by the file of the run: name, before, now."""
    shared: dict[str, str] = {}
    changed: Changes = {}
    for name, read in CONDITIONS.items():
        values = {read(one) for one in runs}
        if len(values) == 1:
            if (value := values.pop()) is not None:
                shared[name] = value
            continue
        of_card: dict[str | None, str | None] = {}
        for one in runs:
            now, before = read(one), of_card.get(one.kept.gpu_uuid, read(one))
            of_card[one.kept.gpu_uuid] = now
            if now != before and (name, before, now) not in changed.setdefault(one.file, []):
                changed[one.file].append((name, before, now))
    return shared, {file: every for file, every in changed.items() if every}
