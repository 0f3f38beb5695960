"""What a card's replayed steps gave, and which card is wrong where equal cards differ."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.comparable import Dissent, Kind, dissent, kind_of
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.records.measurements import Event
from rigproof.stages.replay.stage import STAGE, Place, StepDigest, number_of, places_of

WORK = ("precision", "width", "blocks", "vocabulary", "sequence", "batch", "steps")
Trajectory = tuple[str, ...]  # the checksums of a run, in the order of its places


@dataclass(frozen=True, slots=True)
class Replayed:
    """A card's steps: `places` and their checksums, the losses, and how often the steps were repeated.

    `kind`: what another card must have in common with it for the checksums to be equal.
    """

    kind: Kind
    places: tuple[Place, ...]
    digests: Trajectory
    losses: tuple[float, ...]
    width: int
    steps: int
    runs: int
    differing: int


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The first value in which a card differs from others: what follows from it differs as well."""

    place: Place
    got: str
    dissent: Dissent


def replayed(device: DeviceEvidence) -> Replayed:
    """What it reported. NotMeasured if it reported nothing, or not all of it."""

    def read() -> Replayed:
        events = [one for one in device.events("replay") if one.stage == STAGE]
        if not events:
            device.evidence.stage(STAGE)
            raise NotMeasured("no training step was replayed", device.cause())
        return _read(events[-1], device.records(StepDigest, STAGE))

    return device.evidence.shared_figure("replayed steps", device.subject, read)


def first_difference(device: DeviceEvidence) -> tuple[FirstDifference | None, int]:
    """Its first difference from comparable cards, None if there is none, and how many others there are."""
    own = replayed(device)
    if device.is_cpu:  # there, libraries choose the algorithm by the CPU's instructions
        return None, 0
    found = device.evidence.cached("replays compared", lambda: _compared(device.evidence))
    cards, differences = found[own.kind]
    return differences.get(device.subject), len(cards) - 1


def first_differences(
    places: tuple[Place, ...], cards: Mapping[str, Trajectory]
) -> dict[str, FirstDifference]:
    """By card that differs from the majority: its first value that does; later ones follow from it.

    Once a card has left, it has no vote about later values. Without a majority all that are left differ.
    """
    found: dict[str, FirstDifference] = {}
    left = dict(cards)
    if len(set(left.values())) == 1:
        return found
    for number, place in enumerate(places):
        cards_of: dict[str, set[str]] = defaultdict(set)
        for card, digests in left.items():
            cards_of[digests[number]].add(card)
        for digest, those in cards_of.items() if len(cards_of) > 1 else ():
            apart = dissent(digest, cards_of)
            if apart is not None:
                found |= {card: FirstDifference(place, digest, apart) for card in those}
        left = {card: digests for card, digests in left.items() if card not in found}
    return found


def _compared(evidence: Evidence) -> dict[Kind, tuple[dict[str, Trajectory], dict[str, FirstDifference]]]:
    """The cards that are comparable with each other, and the differences between them."""
    by_kind: dict[Kind, dict[str, Trajectory]] = defaultdict(dict)
    places: dict[Kind, tuple[Place, ...]] = {}
    for device in evidence.devices:
        if device.found and not device.is_cpu:
            try:
                one = replayed(device)
            except NotMeasured:  # its own verdict says so
                continue
            by_kind[one.kind][device.subject] = one.digests
            places[one.kind] = one.places
    return {kind: (cards, first_differences(places[kind], cards)) for kind, cards in by_kind.items()}


def _read(event: Event, records: list[StepDigest]) -> Replayed:
    data = event.data
    numbers = [data.get(name) for name in ("width", "blocks", "steps", "runs", "differing")]
    losses, kind = data.get("losses"), kind_of(data, *WORK)
    whole = all(isinstance(one, int) and one >= 0 for one in numbers)
    if not whole or not isinstance(losses, list) or len(losses) != data["steps"]:
        raise NotMeasured("what it reported of its replayed steps is damaged")
    digest_of, number = {one.place: one.digest for one in records}, number_of(data["blocks"], data["steps"])
    if len(digest_of) != number:
        raise NotMeasured(f"it reported {len(digest_of)} of the {number} values of its replayed steps")
    places = places_of(data["blocks"], data["steps"])
    if not digest_of.keys() >= set(places):
        raise NotMeasured("it reported checksums of other values than those of its replayed steps")
    digests = tuple([digest_of[place] for place in places])
    width, steps, runs, differing = (data[name] for name in ("width", "steps", "runs", "differing"))
    return Replayed(kind, places, digests, tuple(map(_number, losses)), width, steps, runs, differing)


def _number(text: object) -> float:
    """A loss; NaN if it is none."""
    try:
        return float(str(text))
    except ValueError:
        return math.nan
