"""The rates of all work that a card repeats, stage by stage, against its own in other stages and its peers'.

Stages that measure a figure have floors for it. In the others a card that is slow from the beginning to the
end is held against what it does elsewhere (`StageFacts.held_against`), and against cards of its model.
"""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.rates import GroupOf, peers_of
from rigproof.criteria.evidence.rounds import FEWEST_ROUNDS
from rigproof.profiles.kinds.stages import DUTIES, Need

Work = tuple[str, tuple[tuple[str, str | int], ...]]  # stage; labels in the order of their names


@dataclass(frozen=True, slots=True)
class Done:
    """How fast a work was done, in the unit of its stage per second, and for how long."""

    rate: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Reached:
    """The share of a reference that a card reaches in a stage."""

    stage: str
    share: float
    of: str  # the reference, in words


def works_of(device: DeviceEvidence) -> Mapping[Work, Done]:
    """All work that it repeats in the stages that are held against others. Cached for its peers."""

    def measured() -> Mapping[Work, Done]:
        kinds = device.evidence.kinds
        return {work: done for work, done in _works(device).items() if kinds[work[0]].held_against}

    return device.evidence.shared_figure("works", device.subject, measured)


def _works(device: DeviceEvidence) -> Mapping[Work, Done]:
    """All work that it repeats, of every stage whose rounds are valid."""
    return device.cached("works", lambda: dict(_done(device)))


def _done(device: DeviceEvidence) -> Iterator[tuple[Work, Done]]:
    for stage in device.evidence.stages_with(*DUTIES):
        try:
            counted = device.possible(stage).verified.measured
        except NotMeasured:  # its own criteria say so
            continue
        names = sorted({one.name for one in device.evidence.kinds[stage].labels if not one.amount})
        for values, rounds in counted.by_labels(*names).items():
            if len(rounds) >= FEWEST_ROUNDS:
                labels = tuple(
                    (name, one) for name, one in zip(names, values, strict=True) if one is not None
                )
                fast = rounds.without_hiccups()
                seconds = float(fast.seconds.sum())
                yield (stage, labels), Done(float(fast.work.sum()) / seconds, seconds)


# Against itself


def beside_itself(device: DeviceEvidence) -> Iterator[Reached]:
    """The share that its work of each stage reaches of what its own other stages let expect.

    That of the fastest work; of the slowest one, if all must reach it.
    """
    kinds, works = device.evidence.kinds, _works(device)
    for stage in dict.fromkeys(stage for stage, _ in works_of(device)):
        reference = kinds[stage].held_against
        events = [one for one in device.events(*kinds[stage].events) if one.stage == stage]
        if reference is None or not reference.holds(events):
            continue
        chosen = min if reference.every else max
        work, done = chosen(
            ((one, done) for one, done in works.items() if one[0] == stage), key=lambda one: one[1].rate
        )
        told = next(iter(device.told(stage)), {})
        rates = [_other_rate(device, works, work, need) for need in reference.needs]
        amounts = [need.amount(told) for need in reference.needs]
        if all(rates) and all(amounts):
            needed_s = sum(amount / rate for amount, rate in zip(amounts, rates, strict=True))
            yield Reached(stage, done.rate * needed_s, f"its own {reference.words}")


def _other_rate(device: DeviceEvidence, works: Mapping[Work, Done], work: Work, need: Need) -> float:
    """The fastest of its other work in that unit with the same labels; 0 if there is none."""
    kinds, labels = device.evidence.kinds, dict(work[1])
    same = {name: labels.get(name) for name in need.labels}
    found = (
        done.rate
        for (stage, others), done in works.items()
        if kinds[stage].figures
        and kinds[stage].unit == need.unit
        and {name: dict(others).get(name) for name in need.labels} == same
    )
    return max(found, default=0.0)


# Against its peers


def beside_peers(device: DeviceEvidence, *, of_host: bool) -> Iterator[Reached]:
    """For each stage, the time that its peers would have taken for its work, as a share of its own.

    `of_host`: only peers of its host, with which it shares whatever the host takes part in.
    """
    works = works_of(device)
    for stage, group in groupby(sorted(works, key=itemgetter(0)), key=itemgetter(0)):
        own_s = needed_s = 0.0
        words = ""
        for work in group:
            peers = peers_of(device, ("works", of_host, work), _grouped(work, of_host=of_host))
            if peers is not None and peers.middle > 0:
                done, words = works[work], peers.in_words
                own_s, needed_s = own_s + done.seconds, needed_s + done.seconds * done.rate / peers.middle
        if own_s:
            yield Reached(stage, needed_s / own_s, f"{words} of {device.device.sku_stem}")


def _grouped(work: Work, *, of_host: bool) -> GroupOf:
    return partial(_group, work, of_host)


def _group(work: Work, of_host: bool, device: DeviceEvidence) -> tuple[Hashable, float] | None:
    stem = device.device.sku_stem
    try:
        done = None if stem is None else works_of(device).get(work)
    except NotMeasured:
        return None
    return None if done is None else ((stem, device.node_name if of_host else ""), done.rate)
