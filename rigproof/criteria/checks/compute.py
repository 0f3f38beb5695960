"""Does each card compute what cards of its kind compute, to the last bit?"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rigproof.criteria.criterion import Finding, Limit, NotApplicable, NotMeasured, compared, criterion
from rigproof.criteria.effects import WITHOUT_WORK, Also
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.subjects import DeviceEvidence
from rigproof.profiles.kinds.stages import Duty
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.records.measurements import Event
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.simulation.faults.lacks import no_peer

REPEATING: tuple[Duty, ...] = ("continuous", "arms")  # duties of stages that repeat the same products
# What decides the last bit of a product, besides its operands. This includes the card's model: two models
# with as many multiprocessors may get different kernels of one library.
KIND = ("precision", "size", "device", "torch", "cublas", "multiprocessors", "capability")

SAME = "the same products of comparable cards"
UNDECIDED = "do not train on either; swap their slots, or add a third card, and replace the one that is wrong"

Kind = tuple[object, ...]
Product = tuple[str, Kind, str]  # stage, kind, the seeds of its operands
Report = tuple[str, Kind, tuple[tuple[str, str], ...]]  # stage, kind, operands and checksum of each product


class References:
    """The checksums of all cards. Equal cards report the same, so each report is looked into once.

    `by_product`: the cards that reported each checksum of each product. `contested`: the products of which
    there are several checksums.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        """From events of kind "reference". Damaged ones are ignored."""
        cards: dict[Report, set[str]] = defaultdict(set)
        numbers: dict[Report, int] = {}
        by_card: dict[str, set[int]] = defaultdict(set)
        for event in events:
            checksums = event.data.get("checksums")
            if event.stage is None or not isinstance(checksums, Mapping):
                continue
            kind: Kind = tuple([str(event.data.get(name)) for name in KIND])
            stated = tuple([(str(operands), str(checksum)) for operands, checksum in checksums.items()])
            report = (event.stage, kind, stated)
            cards[report].add(event.subject)
            by_card[event.subject].add(numbers.setdefault(report, len(numbers)))
        self._by_card = {card: frozenset(found) for card, found in by_card.items()}
        self._products = [
            {(stage, kind, operands) for operands, _ in checksums} for stage, kind, checksums in numbers
        ]
        self.by_product: dict[Product, dict[str, set[str]]] = {}
        for (stage, kind, checksums), subjects in cards.items():
            for operands, checksum in checksums:
                values = self.by_product.setdefault((stage, kind, operands), {})
                values.setdefault(checksum, set()).update(subjects)
        self.contested = [product for product, values in self.by_product.items() if len(values) > 1]
        self._known: dict[frozenset[int], tuple[set[Product], int]] = {}

    def products_of(self, card: str) -> tuple[set[Product], int]:
        """The products that a card reported, and the most cards with the same checksum of one of them."""
        reports = self._by_card.get(card, frozenset())
        if reports not in self._known:
            products = set().union(*(self._products[one] for one in reports))
            most = max((len(cards) for one in products for cards in self.by_product[one].values()), default=0)
            self._known[reports] = products, most
        return self._known[reports]


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
        what = f"{stage}: {kind[0]} product of seeds {operands}, size {kind[1]},"
        if not self.others:
            return f"{what} differs between two workers or processes of this card"
        named = ", ".join(self.others[:4]) + (" and others" if len(self.others) > 4 else "")
        if self.undecided:
            wrong = "one of the two is wrong" if len(self.others) == 1 else "one side of them is wrong"
            return f"{what} is {self.got} on {subject} and different on {named}: {wrong}"
        return f"{what} is {self.got} here and different on {named}, which agree"


def with_equal(_loaded: LoadedRig, devices: Sequence[PromisedDevice]) -> list[PromisedDevice]:
    """The cards of a SKU of which there are several."""
    number = Counter(device.sku_stem for device in devices)
    return [device for device in devices if device.sku_stem is not None and number[device.sku_stem] > 1]


@criterion(
    "compute.exact",
    title="wrong results",
    scope="device",
    unit="products",
    direction="at_most",
    limit="none may differ. The products of the same operands are compared with those of every card of the "
    "run of the same model, number of multiprocessors and compute capability, with the same torch and "
    "cuBLAS, in each precision and size; the value of the majority is right, and without a majority all "
    "that differ fail. A result that a worker found wrong also fails",
    severity="isolate",
    remedy="do not train on this card; run it in another slot, and replace it if it is wrong there",
    unmeasured="a worker did not record its products' checksums. Not applicable if the run has no "
    "other comparable card",
    also=Also(unmeasured=(*WITHOUT_WORK, "cpu-fallback")),
    duties=REPEATING,
    equal=with_equal,
    applies_to_cpu=False,  # there, libraries choose the algorithm by the CPU's instructions
)
def exact(device: DeviceEvidence) -> Finding:
    """No result of any stage was wrong, and equal cards give the same bits for the same products.

    Before a card is blamed, NVIDIA_TF32_OVERRIDE and CUBLAS_WORKSPACE_CONFIG must be the same on all nodes.
    """
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
        step = UNDECIDED if first_one.undecided else ""
        return _failed(len(differing), first_one.in_words(device.subject), SAME, None, step)
    _require_others(device, references)
    _require_references(device)
    # Nothing differs, so this card agrees with all cards of the product that most cards share.
    products, most = references.products_of(device.subject)
    others = most - 1
    if others < 1:
        _require_equal_cards(device, references)
        raise NotApplicable(
            "no other card of the run has its model, multiprocessors, torch, cuBLAS and size of matrices"
        )
    count = f"{others} other card{'s' if others > 1 else ''}"
    detail = f"{len(products)} products are the same on {count}"
    return compared(0.0, Limit(0, SAME), good=True, detail=detail)


def _failed(count: int, detail: str, source: str, t_s: float | None, remedy: str = "") -> Finding:
    return compared(count, Limit(0, source), good=False, detail=detail, remedy=remedy, from_s=t_s)


def _references(evidence: Evidence) -> References:
    """The checksums of all promised CUDA devices, gathered once."""

    def gathered() -> References:
        cards = {one.subject for one in evidence.devices if not one.is_cpu}
        return References(one for one in evidence.events.get("reference", ()) if one.subject in cards)

    return evidence.kept("references", gathered)


def _differences(references: References, subject: str) -> list[Difference]:
    """The products that this card has wrong, or for which it is unknown which card is wrong."""
    found = []
    products, _ = references.products_of(subject)
    for product in references.contested:
        if product not in products:
            continue
        values = references.by_product[product]
        own = [checksum for checksum, cards in values.items() if subject in cards]
        if len(own) > 1:
            found.append(Difference(product, own[0], (), undecided=False))
        else:
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


def _require_others(device: DeviceEvidence, references: References) -> None:
    """NotApplicable if this is the only card of its model, NotMeasured if it should not be."""
    cards = device.evidence.kept("cards by name", lambda: _by_name(device.evidence))
    if cards[device.identity.name] < 2:
        _require_equal_cards(device, references)
        raise NotApplicable(f"the run has no other {device.identity.name}")


def _require_equal_cards(device: DeviceEvidence, references: References) -> None:
    """NotMeasured if another card of its SKU is promised and has no product that could be compared."""
    if not device.evidence.stages_with(*REPEATING):
        return
    for one in device.evidence.devices:
        equal = one.subject != device.subject and one.device.sku_stem == device.device.sku_stem is not None
        if equal and not references.products_of(one.subject)[0]:
            raise NotMeasured(f"{one.subject}, which is to be compared with it, recorded no product")


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
