"""How the rate of work that a card repeats in a stage falls: its slowest quarter against its best one.

Or now and then: the fastest of the slowest fifth of its rounds, against the slowest of the fastest fifth.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from rigproof.criteria.criterion import Limit, NotMeasured
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.launches import launched_in_ms
from rigproof.criteria.evidence.loads import BOOST_S
from rigproof.criteria.evidence.rounds import JOINING_S, Mask, Rounds, unbroken
from rigproof.criteria.evidence.series import Floats
from rigproof.profiles.kinds.stages import DUTIES, StageFacts, host_paced_share

QUARTERS = 4
SLOW_PART = 5  # one of so many rounds: a slower one alone is a hiccup of the host
SHORTEST_S = 0.25  # of a quarter: less work is as noisy as the host that starts it
SHORT = "all work of less than a second"
QUARTER, FIFTH = "a quarter", "a fifth of the rounds"
Values: TypeAlias = "tuple[Any, ...]"  # of the labels that define a work


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
        """The rate after the fall, as a share of the best one."""
        return self.rate / self.best


def deepest_falls(device: DeviceEvidence) -> Mapping[str, Fall]:
    """The deepest one of each part, of all work that it repeats for a while; none if there is no such work.

    What it repeats for less than that counts together, each work relative to its mean rate.

    A continuous load is not counted: it has windows of its own (`throughput.stability`). Nor are the first
    BOOST_S after a break: before the power cap holds, a card does more than it can keep up. Nor is work
    whose pace the host sets, nor a part that is slow because the host launched its products slowly.
    """
    found: dict[str, Fall] = {}
    continuous = device.evidence.stages_with("continuous")
    for stage in device.evidence.stages_with(*DUTIES):
        for fall in _falls(device, stage) if stage not in continuous else ():
            if fall.part not in found or fall.share < found[fall.part].share:
                found[fall.part] = fall
    return found


def _falls(device: DeviceEvidence, stage: str) -> Iterator[Fall]:
    """The falls of each work of a stage; none if its rounds are not valid."""
    try:
        rounds = device.rounds(stage)
    except NotMeasured:  # a criterion that needs this stage reports it
        return
    kind = device.evidence.kinds[stage]
    counted = rounds.only(_settled(rounds, fed=kind.duty == "fed")).verified.measured
    names = sorted({one.name for one in kind.labels if not one.amount})
    short: list[Rounds] = []
    works = counted.by_labels(*names)
    waiting = _waiting(device, kind, names, works)
    for values, own in works.items():
        if values in waiting:
            continue
        if own.seconds.sum() < QUARTERS * SHORTEST_S:
            short += [own] if launched_in_ms(device, own) is None else []
        else:
            work = ", ".join(
                f"{name} {one}" for name, one in zip(names, values, strict=True) if one is not None
            )
            waited = bool(own.same("host_paced", True).any())  # else there may be thousands, with a span each
            for part in _slowest_parts(own.t_s, own.seconds, own.rates):
                fall = Fall(stage, work, kind.unit, *part)
                spans = fall.over or ((fall.from_s, fall.from_s + fall.length_s),)
                if not waited or launched_in_ms(device, own.during(spans)) is None:
                    yield fall
    if short:
        rates = [one.rates * one.seconds.sum() / one.work.sum() for one in short]
        t_s, seconds = ([getattr(one, name) for one in short] for name in ("t_s", "seconds"))
        for part in _slowest_parts(*map(np.concatenate, (t_s, seconds, rates))):
            yield Fall(stage, SHORT, "", *part)


def paced_by_host(share: Limit | None, step_s: float, longer_s: Iterable[float]) -> bool:
    """Whether a step takes about as long as one of those that do more work, each in s.

    Then it waits for its host, which launches its kernels one by one.
    """
    return share is not None and any(step_s >= share.value * one_s for one_s in longer_s)


def _waiting(
    device: DeviceEvidence, kind: StageFacts[Any], names: Sequence[str], works: Mapping[Values, Rounds]
) -> set[Values]:
    """The works, by their values of these labels, whose pace the host sets, by the fastest step of each.

    By the fastest, as those of a card that falls take longer, too.
    """
    size = next((names.index(one.name) for one in kind.labels if one.larger), None)
    share = None if size is None else device.optional_limit(host_paced_share(kind.name))
    if size is None or share is None:
        return set()
    steps = next(one.name for one in kind.labels if one.amount)
    fastest_s = {values: _fastest_s(own, steps) for values, own in works.items()}

    def longer_s(values: Values) -> Iterator[float]:
        alike = (*values[:size], *values[size + 1 :])
        for other, step_s in fastest_s.items():
            if other[size] > values[size] and (*other[:size], *other[size + 1 :]) == alike:
                yield step_s

    return {values for values, step_s in fastest_s.items() if paced_by_host(share, step_s, longer_s(values))}


def _fastest_s(rounds: Rounds, steps: str) -> float:
    """The time of the fastest step, s; NaN if no round has a number of steps, the label of that name."""
    numbers = rounds.label_numbers(steps)
    known = numbers > 0
    return float((rounds.seconds[known] / numbers[known]).min()) if known.any() else float("nan")


def _slowest_parts(t_s: Floats, seconds: Floats, rates: Floats) -> Iterator[tuple[Any, ...]]:
    """The slowest quarter and fifth of work that lasts long enough: what a Fall has from `rate` on."""
    order = np.argsort(t_s, kind="stable")
    t_s, seconds, rates = t_s[order], seconds[order], rates[order]
    begins_s, total_s = t_s - seconds, seconds.sum()
    quarters = (QUARTERS * (np.cumsum(seconds) - seconds / 2) / total_s).astype(np.intp)
    edges = np.searchsorted(quarters, np.arange(QUARTERS + 1)).tolist()
    if total_s < QUARTERS * SHORTEST_S or any(first == end for first, end in pairwise(edges)):
        return
    middles = [float(np.sort(rates[first:end])[(end - first) // 2]) for first, end in pairwise(edges)]
    worst = int(np.argmin(middles))
    begun_s, ended_s = float(begins_s[edges[worst]]), float(t_s[edges[worst + 1] - 1])
    yield middles[worst], max(middles), begun_s, ended_s - begun_s, QUARTER
    by_rate = np.argsort(rates)
    number_of_slow = len(by_rate) // SLOW_PART + 1
    if number_of_slow > 1:
        slowest = np.sort(by_rate[:number_of_slow])
        slow, fast = rates[by_rate[[number_of_slow - 1, -number_of_slow]]].tolist()
        spans = tuple(zip(begins_s[slowest].tolist(), t_s[slowest].tolist(), strict=True))
        yield slow, fast, spans[0][0], spans[-1][1] - spans[0][0], FIFTH, spans


def _settled(rounds: Rounds, *, fed: bool) -> Mask:
    """The rounds that begin BOOST_S or more after a break of their device; waiting for work is no break."""
    any_work = np.zeros(len(rounds), np.intp)
    loads = unbroken(rounds.begins_s, rounds.t_s, any_work, np.inf if fed else JOINING_S)
    begun_s = np.asarray([begun_s for begun_s, _ in loads])
    load = np.searchsorted(begun_s, rounds.begins_s, "right") - 1
    settled: Mask = rounds.begins_s >= begun_s[load] + BOOST_S
    return settled
