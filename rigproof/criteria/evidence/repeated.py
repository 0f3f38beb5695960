"""How the rate of work that a card repeats in a stage falls: its slowest quarter against its best one.

Or now and then: the fastest of the slowest fifth of its rounds, against the slowest of the fastest fifth.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.loads import BOOST_S
from rigproof.criteria.evidence.readings import Floats
from rigproof.criteria.evidence.rounds import Mask, Rounds
from rigproof.criteria.evidence.spans import JOINING_S, Ids, unbroken
from rigproof.criteria.evidence.stage_rounds import StageRounds
from rigproof.profiles.kinds.stages import DUTIES, StageKinds

QUARTERS = 4
SLOW_PART = 5  # one of so many rounds: a slower one alone is a hiccup of the host
SHORTEST_S = 0.25  # of a quarter: less work is as noisy as the host that starts it
SHORT = "all work of less than a second"
QUARTER, FIFTH = "a quarter", "a fifth of the rounds"


@dataclass(frozen=True, slots=True)
class Fall:
    """The slowest part of what a card repeats in a stage: `a quarter`, or `a fifth of the rounds`.

    `rate` and `best`: of the slowest quarter and of the best one, the median of their rounds; or of the
    slowest fifth the fastest round, and of the fastest fifth the slowest one; in `unit` per second, without a
    unit as shares of the mean rate of each work. `over`: when the rounds of the slow fifth ran.
    """

    stage: str
    work: str  # in words
    unit: str
    rate: float
    best: float
    from_s: float
    length_s: float
    part: str
    over: tuple[tuple[float, float], ...] = ()

    @property
    def share(self) -> float:
        """Of the best rate."""
        return self.rate / self.best


def deepest_falls(device: DeviceEvidence) -> Mapping[str, Fall]:
    """The deepest one of each part, of all work that it repeats for a while; none if there is no such work.

    What it repeats for less than that counts together, each work relative to its mean rate.

    A continuous load is not counted: it has windows of its own (`throughput.stability`). Nor are the first
    BOOST_S after a break: before the power cap holds, a card does more than it can keep up.
    """
    evidence = device.evidence
    stages = set(evidence.stages_with(*DUTIES)) - set(evidence.stages_with("continuous"))
    falls = device.block.kept("falls", lambda: _falls(device.stage_rounds, stages, evidence.kinds))
    return falls.get(device.subject, {})


def _falls(done: StageRounds, stages: set[str], kinds: StageKinds) -> dict[str, dict[str, Fall]]:
    """The deepest falls of each device, by part."""
    every = done.every
    counted = every.same("stage", *stages) & every.same("verified", True) & every.same("phase", "measure")
    counted &= _settled(done, kinds)
    names = sorted({one.name for stage in stages for one in kinds[stage].labels if not one.amount})
    parts = done.parts(counted, *names)
    if not parts.keys:
        return {}
    rounds, number = parts.rounds, len(parts.keys)
    total_s = np.bincount(parts.part_of, rounds.seconds, number)
    means = np.bincount(parts.part_of, rounds.work, number) / total_s
    short = total_s < QUARTERS * SHORTEST_S
    pools: dict[Any, int] = {}  # by subject and stage
    groups = np.asarray(
        [
            pools.setdefault(key[0], number + len(pools)) if few else place
            for place, (key, few) in enumerate(zip(parts.keys, short.tolist(), strict=True))
        ]
    )[parts.part_of]
    rates = rounds.work / rounds.seconds
    rates = np.where(short[parts.part_of], rates / means[parts.part_of], rates)
    names_of = {place: ", ".join(_labels(names, key[1:])) for place, key in enumerate(parts.keys)}
    found: dict[str, dict[str, Fall]] = defaultdict(dict)
    pooled_of = list(pools)
    for group, (rate, best, *rest) in _slowest_parts(groups, rounds, rates, number + len(pools)):
        pooled = group >= number
        subject, stage = pooled_of[group - number] if pooled else parts.keys[group][0]
        work, unit = (SHORT, "") if pooled else (names_of[group], kinds[stage].unit)
        fall = Fall(stage, work, unit, rate, best, *rest)
        if fall.part not in found[subject] or fall.share < found[subject][fall.part].share:
            found[subject][fall.part] = fall
    return found


def _labels(names: Sequence[str], values: Sequence[Any]) -> list[str]:
    return [f"{name} {one}" for name, one in zip(names, values, strict=True) if one is not None]


def _slowest_parts(
    groups: Ids, rounds: Rounds, rates: Floats, number: int
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Of each group that lasts long enough its slowest quarter and fifth: what a Fall has from `rate` on."""
    in_time = np.lexsort((rounds.t_s, groups))
    groups, seconds, t_s, rates = (
        groups[in_time],
        rounds.seconds[in_time],
        rounds.t_s[in_time],
        rates[in_time],
    )
    total_s = np.bincount(groups, seconds, number)
    into_s = np.cumsum(seconds) - seconds / 2 - (np.cumsum(total_s) - total_s)[groups]
    quarters = np.clip((QUARTERS * into_s / total_s[groups]).astype(np.intp), 0, QUARTERS - 1)
    places = groups * QUARTERS + quarters
    bounds = np.searchsorted(places, np.arange(number * QUARTERS + 1))
    filled = (np.diff(bounds).reshape(-1, QUARTERS) > 0).all(axis=1)
    by_rate = rates[np.lexsort((rates, places))]
    for group in ((total_s >= QUARTERS * SHORTEST_S) & filled).nonzero()[0].tolist():
        edges = bounds[group * QUARTERS : (group + 1) * QUARTERS + 1].tolist()
        middles = [float(by_rate[(first + end) // 2]) for first, end in pairwise(edges)]
        worst = int(np.argmin(middles))
        first, last = edges[worst], edges[worst + 1] - 1
        begun_s, ended_s = float(t_s[first] - seconds[first]), float(t_s[last])
        yield group, (middles[worst], max(middles), begun_s, ended_s - begun_s, QUARTER)
        in_order = edges[0] + np.argsort(rates[edges[0] : edges[-1]])
        number_of_slow = len(in_order) // SLOW_PART + 1
        if number_of_slow > 1:
            slowest = np.sort(in_order[:number_of_slow])
            slow, fast = rates[in_order[[number_of_slow - 1, -number_of_slow]]].tolist()
            spans = tuple(zip((t_s - seconds)[slowest].tolist(), t_s[slowest].tolist(), strict=True))
            begun_s, ended_s = spans[0][0], spans[-1][1]
            yield group, (slow, fast, begun_s, ended_s - begun_s, FIFTH, spans)


def _settled(done: StageRounds, kinds: StageKinds) -> Mask:
    """The rounds that begin BOOST_S or more after a break of their device; waiting for work is no break."""
    every = done.every
    fed = every.same("stage", *(kind.name for kind in kinds if kind.duty == "fed"))
    any_work = np.zeros(len(every), np.intp)
    joining_s = np.where(fed, np.inf, JOINING_S)
    groups, begun_s, _ = unbroken(done.groups, every.begins_s, every.t_s, any_work, joining_s)
    load = np.searchsorted(groups + 1j * begun_s, done.groups + 1j * every.begins_s, "right") - 1
    settled: Mask = every.begins_s >= begun_s[load] + BOOST_S
    return settled
