"""Repeated runs of one card, or of one model: how well they tell a rate, and the floor that follows."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median, stdev, variance
from typing import Literal

from scipy.stats import nct, norm
from scipy.stats import t as student

from rigproof.criteria.changes import LEAST_SPREAD, TOGETHER, spread_of
from rigproof.profiles.planning.floor_basis import major_minor
from rigproof.profiles.tables.rig import Calibration
from rigproof.records.grouping import grouped
from rigproof.records.measurements import FigureRate
from rigproof.records.message_text import one_line
from rigproof.records.recording import Recording
from rigproof.records.verdict import Verdict, count_of

Answer = Literal["new", "raised", "lowered", "stays", "not known yet"]


@dataclass(frozen=True, slots=True)
class Measured:
    """A rate of one card in one run. `conditions`: what has to be alike in rates that are put together."""

    run_id: str
    card: str  # UUID
    subject: str
    rate: FigureRate
    conditions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Floor:
    """What runs tell of a rate. `median`, `value` and `before`, the highest floor so far, in its unit.

    `spread` (standard deviation) and `half_width` (of the mean's confidence interval): shares of the mean.
    """

    first: Measured
    runs: int
    median: float
    spread: float
    half_width: float
    value: float
    before: float | None
    answer: Answer

    @property
    def known(self) -> bool:
        """Whether the runs are enough for a floor."""
        return self.answer != "not known yet"


def measured(recording: Recording, verdicts: Iterable[Verdict]) -> Iterator[Measured]:
    """Every rate of a run that a floor can be stated for, whatever its verdict."""
    for verdict in verdicts:
        if (gpu := recording.gpus.get(verdict.subject)) is None:
            continue
        torch = {one.torch_version for one in recording.workers if one.subject == verdict.subject}
        driver = recording.nodes[verdict.subject.partition("/")[0]].driver_version
        known = {
            "card": gpu.name,
            "uuid": gpu.uuid,
            "level": recording.run.level,
            "rigproof": f"rigproof {recording.run.rigproof_version}",
            "driver": f"driver {driver}" if driver else "",
            "torch": f"torch {'/'.join(sorted(torch))}",
            "power": f"{gpu.power_limit_w:.0f} W" if gpu.power_limit_w else "",
        }
        for rate in verdict.rates:
            labels = (f"{name} {value}, " for name, value in sorted(rate.labels.items()))
            known["work"] = "".join(labels) + count_of(rate.workers, "workers")
            alike = {name: one_line(text, 100) for name, text in known.items()}  # may be others' runs
            yield Measured(one_line(recording.run.run_id), gpu.uuid, verdict.subject, rate, alike)


def of_model(one: Measured) -> Measured:
    """The same as a rate of its model, whatever the card, the level and the last parts of versions."""
    had = one.conditions
    kept = {name: had[name] for name in ("card", "power", "work", "rigproof")}
    kept |= {"driver": had["driver"].partition(".")[0], "torch": major_minor(had["torch"].partition(" ")[2])}
    return replace(one, subject="", conditions=kept)


def unlike(rates: Iterable[Measured]) -> dict[str, str]:
    """By run, in what it differs from the first one with the same figure, or that it is there twice."""
    first: dict[tuple[str, str], Measured] = {}
    found: dict[str, str] = {}
    seen: set[tuple[str, str, str]] = set()
    for one in rates:
        if (place := (one.run_id, one.card, one.rate.figure)) in seen:
            found[one.run_id] = "named twice"
        seen.add(place)
        other = first.setdefault((one.subject, one.rate.figure), one)
        for name, here in one.conditions.items():
            if here != (there := other.conditions[name]):
                what = f"{one.subject} {one.rate.figure} {name}: {here or 'unknown'}, in {other.run_id} "
                found.setdefault(one.run_id, what.strip() + f" {there or 'unknown'}")
    return found


def floors(rates: Iterable[Measured], wanted: Calibration, *, lower: bool) -> list[Floor]:
    """A floor for each figure of each card; `lower`: even where it is lower than the one so far.

    The logarithms are taken to be normal, as in `changes`. Interval of the mean: Student's t. Floor: the
    one-sided lower tolerance bound m - k s by the noncentral t (NIST/SEMATECH e-Handbook 7.2.6.3, Natrella
    1963), below which an unchanged rig falls in `false_alarm_share` of its runs, all floors together; both
    with confidence TOGETHER. No floor is above `closest_share` of the mean.
    """
    groups = grouped(rates, lambda one: (one.subject, one.rate.figure))
    return [_floor(every, wanted, wanted.false_alarm_share / len(groups), lower) for every in groups.values()]


def _floor(every: Sequence[Measured], wanted: Calibration, alarms: float, lower: bool) -> Floor:
    logs, number = [math.log(one.rate.value) for one in every], len(every)
    middle = median(one.rate.value for one in every)
    before = max((one.rate.floor for one in every if one.rate.floor is not None), default=None)
    if number < 2:
        return Floor(every[0], number, middle, math.inf, math.inf, 0.0, before, "not known yet")
    mean, spread, root = fmean(logs), max(stdev(logs), LEAST_SPREAD), math.sqrt(number)
    half = math.expm1(float(student.ppf((1 + TOGETHER) / 2, number - 1)) * spread / root)
    factor = float(nct.ppf(TOGETHER, number - 1, float(norm.isf(alarms)) * root)) / root
    value = rounded(min(math.exp(mean - factor * spread), wanted.closest_share * math.exp(mean)), down=True)
    answer: Answer = "stays"
    if number < wanted.fewest_runs or not half <= wanted.half_width_share or not value > 0:
        answer = "not known yet"
    elif before is None or value > before:
        answer = "new" if before is None else "raised"
    elif lower and value < before:
        answer = "lowered"
    return Floor(every[0], number, middle, spread, half, value, before, answer)


def spread(cards: Iterable[Sequence[float]]) -> float:
    """The standard deviation of the logarithm of a run of any card, from the runs of two cards or more.

    The variances between cards and between runs of one card, added: random effects, unweighted means (Burdick
    and Graybill, Confidence Intervals on Variance Components, 1992). At least LEAST_SPREAD.
    """
    every = list(cards)
    within = spread_of(every)
    own = within.variance * (1 - fmean(1 / len(runs) for runs in every)) if within else 0.0
    return max(LEAST_SPREAD, math.sqrt(variance(fmean(map(math.log, runs)) for runs in every) + own))


def rounded(value: float, *, down: bool = False) -> float:
    """The value with four significant digits."""
    decimals = 3 - math.floor(math.log10(value)) if value > 0 else 0
    found = round(math.floor(value * 10.0**decimals) / 10.0**decimals if down else value, decimals)
    return int(found) if found == int(found) else found
