"""Does each device compute what exact arithmetic says, and what others of its kind do, to the last bit?"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rigproof.criteria.criterion import Criterion, Finding, Limit, NotApplicable, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.clocks import MOVED_S
from rigproof.criteria.evidence.comparable import (
    UNDECIDED,
    Dissent,
    Kind,
    dissent,
    found_of_model,
    kind_of,
    promised_equals,
)
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.devices.verification import placed
from rigproof.records.measurements import Event
from rigproof.simulation.faults.kinds import REPEATING, TIMES, FaultKind, no_peer

EXACT = "exact arithmetic"
SAME = "the same products of comparable cards"

Product = tuple[str, Kind, str]  # stage, kind, the seeds of its operands


class References:
    """The checksums of all cards.

    `by_product`: the cards that reported each checksum of each product. `contested`: the products of which
    there are several checksums.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        """From events of kind "reference". Damaged ones are ignored."""
        self.by_product: dict[Product, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self._by_card: dict[str, set[Product]] = defaultdict(set)
        for event in events:
            checksums = event.data.get("checksums")
            if event.stage is None or not isinstance(checksums, Mapping):
                continue
            kind = kind_of(event.data, "precision", "size", "golden")
            for operands, checksum in checksums.items():
                product = (event.stage, kind, str(operands))
                self.by_product[product][str(checksum)].add(event.subject)
                self._by_card[event.subject].add(product)
        self.contested = [product for product, values in self.by_product.items() if len(values) > 1]

    def products_of(self, card: str) -> set[Product]:
        """The products that a card reported."""
        return self._by_card.get(card, set())

    def most_alike(self, card: str) -> int:
        """The most cards with the same checksum of one of the card's products; 0 without any."""
        found = (self.by_product[product].values() for product in self.products_of(card))
        return max((len(cards) for values in found for cards in values), default=0)


@dataclass(frozen=True, slots=True)
class Difference:
    """A product for which the card gives other bits than most comparable cards, or than it gave before."""

    product: Product
    got: str
    from_others: Dissent | None  # None: the card contradicts itself

    @property
    def in_order(self) -> tuple[str, str, Kind]:
        """Orders differences by stage and operands, so that the same one is reported every time."""
        stage, kind, operands = self.product
        return stage, operands, kind

    def in_words(self, subject: str) -> str:
        """The difference as the report shows it."""
        stage, kind, operands = self.product
        what = f"{stage}: {kind[0]} product of seeds {operands}, size {kind[1]},"
        if self.from_others is None:
            return f"{what} differs between two workers or processes of this card"
        where = f"on {subject}" if self.from_others.undecided else "here"
        return f"{what} is {self.got} {where} and {self.from_others.in_words}"


@Criterion(
    "compute.exact",
    title="wrong results",
    unit="products",
    direction="at_most",
    limit="none may differ. Products of golden operands, which have the same bits on every device and in any "
    "order of summing, are compared with exact arithmetic, in each precision. Those of other operands are "
    "compared with those of every card of the run of the same model, number of multiprocessors and compute "
    "capability, with the same torch and cuBLAS, in each precision and size; the value of the majority is "
    "right, and without a majority all that differ fail. A result that a worker found wrong also fails",
    severity="isolate",
    remedy="do not train on it; try it in another slot, else replace it",
    unmeasured="a worker did not record its products' checksums, or multiplied no golden operands in a "
    "precision, or a wrong result is of no device of the rig or of the run. "
    "Not applicable in a recording without golden operands and without another comparable card",
    idling="not measured",
    duties=REPEATING,
)
def exact(device: DeviceEvidence) -> Finding:
    """No result of any stage was wrong: products are those of exact arithmetic, and the same on equal cards.

    Before a card is blamed, NVIDIA_TF32_OVERRIDE must be the same on all nodes.
    """
    wrong = device.events("wrong_result")
    if wrong:
        first = wrong[0]
        where = f" in the {first.stage} stage" if first.stage else ""
        number = sum(event.number for event in wrong)
        found = placed(first.data)
        detail = f"{first.message}{where}" + (f": {found}" if found else "")
        return _failed(number, detail, "its own reference", first.t_s)
    device.require_placed("wrong_result")
    references = _references(device.evidence)
    differing = _differences(references, device.subject)
    if differing:
        first_one = min(differing, key=lambda one: (one.from_others is not None, one.in_order))
        undecided = first_one.from_others is not None and first_one.from_others.undecided
        step = UNDECIDED if undecided else ""
        return _failed(len(differing), first_one.in_words(device.subject), SAME, None, step)
    _require_references(device)
    # Nothing differs, so this card agrees with all cards of the product that most cards share.
    products = references.products_of(device.subject)
    others = references.most_alike(device.subject) - 1
    same = f"{len(products)} products are the same on {others} other card{'s' * (others > 1)}"
    precisions = _held_against_arithmetic(device)
    if precisions:
        detail = f"as exact arithmetic says in {', '.join(precisions)}" + (f"; {same}" if others > 0 else "")
        return pass_or_fail(0.0, Limit(0, EXACT), good=True, detail=detail)
    _require_others(device, references)
    if others < 1:
        _require_equal_cards(device, references)
        raise NotApplicable(
            "no other card of the run has its model, multiprocessors, torch, cuBLAS and size of matrices"
        )
    return pass_or_fail(0.0, Limit(0, SAME), good=True, detail=same)


def _failed(count: int, detail: str, source: str, t_s: float | None, remedy: str = "") -> Finding:
    return pass_or_fail(count, Limit(0, source), good=False, detail=detail, remedy=remedy, from_s=t_s)


def _references(evidence: Evidence) -> References:
    """The checksums of all promised CUDA devices, gathered once."""

    def gathered() -> References:
        cards = {one.subject for one in evidence.devices if not one.is_cpu}
        return References(one for one in evidence.events.of_kind("reference") if one.subject in cards)

    return evidence.cached("references", gathered)


def _differences(references: References, subject: str) -> list[Difference]:
    """The products that this card has wrong, or for which it is unknown which card is wrong."""
    found, products = [], references.products_of(subject)
    for product in references.contested:
        if product not in products:
            continue
        values = references.by_product[product]
        own = [checksum for checksum, cards in values.items() if subject in cards]
        if len(own) > 1:
            found.append(Difference(product, own[0], None))
        elif (from_others := dissent(own[0], values)) is not None:
            found.append(Difference(product, own[0], from_others))
    return found


def _require_others(device: DeviceEvidence, references: References) -> None:
    """NotApplicable if this is the only card of its model, NotMeasured if it should not be."""
    if found_of_model(device) < 2:
        _require_equal_cards(device, references)
        raise NotApplicable(f"the run has no other {device.identity.name}")


def _require_equal_cards(device: DeviceEvidence, references: References) -> None:
    """NotMeasured if another card of its SKU is promised and has no product that could be compared."""
    if not device.evidence.stages_with(*REPEATING):
        return
    for one in promised_equals(device):
        if not references.products_of(one.subject):
            raise NotMeasured(f"{one.subject}, which is to be compared with it, recorded no product")


def _reported(device: DeviceEvidence) -> list[Event]:
    """The card's references of this lap: those of earlier ones are only there to be compared."""
    begun_s = min((one.start_s for one in device.evidence.recording.attempts), default=-math.inf)
    return [one for one in device.events("reference") if not one.t_s < begun_s - MOVED_S]


def _is_whole(checksums: object) -> bool:
    return isinstance(checksums, dict) and bool(checksums)


def _require_references(device: DeviceEvidence) -> None:
    """NotMeasured if a worker did not record its checksums in a stage that repeats products."""
    whole = [one for one in _reported(device) if _is_whole(one.data.get("checksums"))]
    recorded = {(event.stage, event.worker) for event in whole}
    for stage in device.evidence.stages_with(*REPEATING):
        workers = device.planned_workers
        for worker in workers if device.evidence.kinds[stage].all_workers else workers[:1]:
            if (stage, worker) not in recorded:
                why = f"{worker} recorded no reference in the {stage} stage"
                raise NotMeasured(why, device.cause())


def _held_against_arithmetic(device: DeviceEvidence) -> list[str]:
    """The precisions in which products were held against exact arithmetic; empty if the run did not do that.

    NotMeasured if it did, but not in each precision that a worker multiplied in.
    """
    golden: dict[tuple[str, object], set[bool]] = defaultdict(set)
    for event in _reported(device):
        if event.stage is not None and isinstance(event.data.get("golden"), bool):
            golden[event.stage, event.data.get("precision")].add(event.data["golden"])
    for (stage, precision), kinds in golden.items():
        done = device.rounds(stage).verified
        if kinds == {True}:  # all that it multiplied
            held = done.having(precision=precision)
        else:
            held = done.only(done.labelled("precision", precision) & done.same("phase", "exact"))
        if True not in kinds or not len(held):
            why = f"no product of the {stage} stage in {precision} was held against exact arithmetic"
            raise NotMeasured(why, device.cause())
    return list(dict.fromkeys(str(precision) for _, precision in golden))


FAULTS = (
    *(
        FaultKind(
            name,
            what,
            ("activity.gpu_active", "memory.success_rate", "compute.exact"),
            keys=TIMES,
            defaults={"after": "50%", "for": "30%"},
            duties=REPEATING,
            of_task=True,
        )
        for name, what in (
            ("wrong-element", "one element of its products is wrong, the same one each time"),
            ("wrong-tile", "several bits are wrong in the part of a product that a warp computes"),
        )
    ),
    FaultKind(
        "wrong-arithmetic",
        "the same wrong result every time, of operands that are not golden: it agrees with itself, and with "
        "no other card",
        ("compute.exact",),
        lacks=no_peer,
    ),
)
