"""Does each card compute what cards of its kind compute, to the last bit?"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from rigproof.criteria.criterion import Finding, NotApplicable, NotMeasured, criterion
from rigproof.criteria.effects import WITHOUT_WORK, Also
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.subjects import DeviceEvidence
from rigproof.profiles.kinds.stages import Duty
from rigproof.records.measurements import Event
from rigproof.records.verdict import Outcome
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.simulation.faults.lacks import no_peer

REPEATING: tuple[Duty, ...] = ("continuous", "arms")  # duties of stages that repeat the same products
# What decides the last bit of a product, besides its operands. This includes the card's model: two models
# with as many multiprocessors may get different kernels of one library.
KIND = ("precision", "size", "device", "torch", "cublas", "multiprocessors", "capability")

UNDECIDED = (
    "do not train on any of them until you know which is wrong: check that NVIDIA_TF32_OVERRIDE and "
    "CUBLAS_WORKSPACE_CONFIG are the same on all nodes, swap the cards' slots and run again, or add another "
    "card of this model; replace the one that the difference moves with"
)

Kind = tuple[object, ...]
Product = tuple[str, Kind, str]  # stage, kind, the seeds of its operands


@dataclass(slots=True)
class References:
    """The checksums of all cards: the cards that reported each checksum of each product."""

    by_product: dict[Product, dict[str, set[str]]] = field(default_factory=dict)
    by_card: dict[str, set[Product]] = field(default_factory=lambda: defaultdict(set))

    def add(self, event: Event) -> None:
        """Add one event of kind "reference". Damaged entries are ignored."""
        checksums = event.data.get("checksums")
        if event.stage is None or not isinstance(checksums, Mapping):
            return
        kind = tuple(str(event.data.get(name)) for name in KIND)
        for operands, checksum in checksums.items():
            product = (event.stage, kind, str(operands))
            self.by_product.setdefault(product, {}).setdefault(str(checksum), set()).add(event.subject)
            self.by_card[event.subject].add(product)


@dataclass(frozen=True, slots=True)
class Difference:
    """A product for which the card gives other bits than most comparable cards, or than it gave before."""

    product: Product
    got: str
    others: tuple[str, ...]  # the cards with the majority's value; empty if the card contradicts itself
    undecided: bool  # no majority: both values have equally many cards

    @property
    def in_order(self) -> tuple[str, str, Kind]:
        """Orders differences by stage and operands, so that the same one is reported every time."""
        stage, kind, operands = self.product
        return stage, operands, kind

    def in_words(self, subject: str) -> str:
        """The difference as the report shows it."""
        stage, kind, operands = self.product
        what = f"the {kind[0]} product of seeds {operands}, size {kind[1]}, in the {stage} stage"
        if not self.others:
            return f"{what} differs between two workers or processes of this card"
        named = ", ".join(self.others[:4]) + (" and others" if len(self.others) > 4 else "")
        if self.undecided:
            wrong = "one of the two is wrong" if len(self.others) == 1 else "one side of them is wrong"
            return f"{what} is {self.got} on {subject} and different on {named}: {wrong}"
        return f"{what} is {self.got} here and different on {named}, which agree with each other"


@criterion(
    "compute.exact",
    scope="device",
    unit="products",
    limit="none may differ. The products of the same operands are compared with those of every card of the "
    "run of the same model, number of multiprocessors and compute capability, with the same torch and "
    "cuBLAS, in each precision and size; the value of the majority is right, and without a majority all "
    "that differ fail. A result that a worker found wrong also fails",
    remedy="do not train on this card: its results are silently wrong. Check that NVIDIA_TF32_OVERRIDE and "
    "CUBLAS_WORKSPACE_CONFIG are the same on all nodes, put the card into another slot and run again; if "
    "the difference moves with it, replace it",
    unmeasured="a worker did not record its products' checksums. Not applicable if the run has no "
    "other comparable card",
    also=Also(unmeasured=(*WITHOUT_WORK, "cpu-fallback")),
    duties=REPEATING,
    applies_to_cpu=False,  # there, libraries choose the algorithm by the CPU's instructions
)
def exact(device: DeviceEvidence) -> Finding:
    """No result of any stage was wrong, and equal cards give the same bits for the same products."""
    wrong = device.events("wrong_result")
    if wrong:
        first = wrong[0]
        where = f" in the {first.stage} stage" if first.stage else ""
        number = sum(event.number for event in wrong)
        return _failed(number, f"{first.message}{where}", "its own reference", first.t_s)
    references = _references(device.evidence)
    differing = _differences(references, device.subject)
    if differing:
        first_one = min(differing, key=lambda one: (bool(one.others), one.in_order))
        source = "the same products of comparable cards"
        step = UNDECIDED if first_one.undecided else ""
        return _failed(len(differing), first_one.in_words(device.subject), source, None, step)
    _require_others(device)
    _require_references(device)
    products = references.by_card[device.subject]
    # Nothing differs, so this card agrees with all cards of the product that most cards share.
    agree = (max(map(len, references.by_product[product].values())) for product in products)
    others = max(agree, default=1) - 1
    if others < 1:
        raise NotApplicable(
            "no other card of the run has its model, multiprocessors, torch, cuBLAS and size of matrices"
        )
    count = f"{others} other card{'s' if others > 1 else ''}"
    detail = f"{len(products)} products are the same on {count}"
    return Finding(Outcome.PASS, 0.0, detail=detail, source="the same products of comparable cards")


def _failed(count: int, detail: str, source: str, t_s: float | None, remedy: str = "") -> Finding:
    return Finding(Outcome.FAIL, float(count), detail=detail, remedy=remedy, source=source, from_s=t_s)


def _references(evidence: Evidence) -> References:
    """The checksums of all promised CUDA devices, gathered once."""

    def gathered() -> References:
        found = References()
        cards = {one.subject for one in evidence.devices if not one.is_cpu}
        for event in evidence.events.get("reference", ()):
            if event.subject in cards:
                found.add(event)
        return found

    return evidence.kept("references", gathered)


def _differences(references: References, subject: str) -> list[Difference]:
    """The products that this card has wrong, or for which it is unknown which card is wrong."""
    found = []
    for product in references.by_card.get(subject, ()):
        values = references.by_product[product]
        own = [checksum for checksum, cards in values.items() if subject in cards]
        if len(own) > 1:
            found.append(Difference(product, own[0], (), undecided=False))
        elif len(values) > 1:
            difference = _against_others(product, own[0], values)
            found += [difference] if difference is not None else []
    return found


def _against_others(product: Product, own: str, values: Mapping[str, set[str]]) -> Difference | None:
    """None if most of the cards that agree with themselves have the same value as this one."""
    votes = Counter({checksum: len(cards) for checksum, cards in values.items()})
    (most, count), *rest = votes.most_common()
    undecided = bool(rest) and rest[0][1] == count
    if own == most and not undecided:
        return None
    others = {card for checksum, cards in values.items() if checksum != own for card in cards}
    return Difference(product, own, tuple(sorted(others if undecided else values[most])), undecided)


def _require_others(device: DeviceEvidence) -> None:
    """NotApplicable if this is the only card of its model that was found."""
    cards = device.evidence.kept("cards by name", lambda: _by_name(device.evidence))
    if cards[device.identity.name] < 2:
        raise NotApplicable(f"the run has no other {device.identity.name}")


def _by_name(evidence: Evidence) -> Counter[str]:
    return Counter(one.identity.name for one in evidence.devices if one.found and not one.is_cpu)


def _is_whole(checksums: object) -> bool:
    return isinstance(checksums, dict) and bool(checksums)


def _require_references(device: DeviceEvidence) -> None:
    """NotMeasured if a worker did not record its checksums in a stage that repeats products."""
    events = device.events("reference")
    recorded = {(event.stage, event.worker) for event in events if _is_whole(event.data.get("checksums"))}
    for stage in device.evidence.stages_with(*REPEATING):
        workers = device.planned_workers
        for worker in workers if device.evidence.kinds[stage].all_workers else workers[:1]:
            if (stage, worker) not in recorded:
                cause = device.cause()
                why = f"{worker} recorded no reference in the {stage} stage"
                raise NotMeasured(why + (f": {cause}" if cause else ""))


FAULTS = (
    FaultKind(
        "wrong-arithmetic",
        "gpu",
        "the same wrong result every time: it agrees with itself, and with no other card",
        ("compute.exact",),
        lacks=no_peer,
    ),
)
