"""How the rate of work that a card repeats in a stage falls: its slowest quarter against its best one."""

from collections.abc import Iterator, Sequence
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
SHORTEST_S = 0.25  # of a quarter: less work is as noisy as the host that starts it
SHORT = "all work of less than a second"


@dataclass(frozen=True, slots=True)
class Fall:
    """The slowest quarter of the time in which a card repeated the same work in a stage.

    `rate` and `best`: of this quarter and of the best one, the median of their rounds, in `unit` per second;
    without a unit they are shares of the mean rate of each work.
    """

    stage: str
    work: str  # in words
    unit: str
    rate: float
    best: float
    from_s: float
    length_s: float

    @property
    def share(self) -> float:
        """Of the best rate."""
        return self.rate / self.best


def deepest_fall(device: DeviceEvidence) -> Fall | None:
    """The deepest one of all work that it repeats for a while; None if there is no such work.

    What it repeats for less than that counts together, each work relative to its mean rate.

    A continuous load is not counted: it has windows of its own (`throughput.stability`). Nor are the first
    BOOST_S after a break: before the power cap holds, a card does more than it can keep up.
    """
    evidence = device.evidence
    stages = set(evidence.stages_with(*DUTIES)) - set(evidence.stages_with("continuous"))
    falls = device.block.kept("falls", lambda: _falls(device.stage_rounds, stages, evidence.kinds))
    return falls.get(device.subject)


def _falls(done: StageRounds, stages: set[str], kinds: StageKinds) -> dict[str, Fall]:
    """The deepest fall of each device."""
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
    found: dict[str, Fall] = {}
    for group, fall in _worst_quarters(groups, rounds, rates, number + len(pools)):
        pooled = group >= number
        subject, stage = list(pools)[group - number] if pooled else parts.keys[group][0]
        if subject not in found or fall[0] / fall[1] < found[subject].share:
            work = SHORT if pooled else names_of[group]
            found[subject] = Fall(stage, work, "" if pooled else kinds[stage].unit, *fall)
    return found


def _labels(names: Sequence[str], values: Sequence[Any]) -> list[str]:
    return [f"{name} {one}" for name, one in zip(names, values, strict=True) if one is not None]


def _worst_quarters(
    groups: Ids, rounds: Rounds, rates: Floats, number: int
) -> Iterator[tuple[int, tuple[float, float, float, float]]]:
    """Of each group that lasts long enough: the rates of its slowest and its best quarter, when, how long."""
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
        yield group, (middles[worst], max(middles), begun_s, ended_s - begun_s)


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
