"""Which cards must give the same bits for the same work, and which one is wrong if they do not."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.evidence import Evidence

# What decides the last bit of a result, besides the work itself (`Device.arithmetic`). This includes the
# card's model: two models with as many multiprocessors may get different kernels of one library.
ARITHMETIC = ("device", "torch", "cublas", "multiprocessors", "capability")
UNDECIDED = "do not train on either; swap the two cards, or add a third one, and replace the wrong one"
MOST_NAMED = 4

Kind = tuple[str, ...]


def kind_of(data: Mapping[str, Any], *work: str) -> Kind:
    """What two cards must have in common to be compared, from an event's data: `work`, then ARITHMETIC."""
    return tuple([str(data.get(name)) for name in (*work, *ARITHMETIC)])


@dataclass(frozen=True, slots=True)
class Dissent:
    """A card's result differs from that of others.

    `others`: those that have the majority's result; without a majority (`undecided`) all that have another
    one.
    """

    others: tuple[str, ...]
    undecided: bool

    @property
    def in_words(self) -> str:
        """The end of a sentence: `different on pc1/gpu1, pc1/gpu2, which agree`."""
        named = ", ".join(self.others[:MOST_NAMED]) + (" and others" if len(self.others) > MOST_NAMED else "")
        if not self.undecided:
            return f"different on {named}, which agree"
        wrong = "one of the two is wrong" if len(self.others) == 1 else "one side of them is wrong"
        return f"different on {named}: {wrong}"


def dissent(own: str, cards_of: Mapping[str, set[str]]) -> Dissent | None:
    """How a card with the result `own` differs, given the cards with each result.

    None if it has the majority's result. Without a majority every card differs.
    """
    votes = Counter({result: len(cards) for result, cards in cards_of.items()})
    (most, count), *rest = votes.most_common()
    undecided = bool(rest) and rest[0][1] == count
    if own == most and not undecided:
        return None
    others = {card for result, cards in cards_of.items() if result != own for card in cards}
    return Dissent(tuple(sorted(others if undecided else cards_of[most])), undecided)


def promised_equals(device: DeviceEvidence) -> list[DeviceEvidence]:
    """The other promised cards of its SKU; none if it has no SKU file."""
    own = device.device.sku_stem
    every = (one for one in device.evidence.devices if one.subject != device.subject)
    return [one for one in every if own is not None and one.device.sku_stem == own]


def found_of_model(device: DeviceEvidence) -> int:
    """How many cards of its model were found in the run, itself included."""
    return device.evidence.cached("cards by name", lambda: _by_name(device.evidence))[device.identity.name]


def _by_name(evidence: Evidence) -> Counter[str]:
    return Counter(one.identity.name for one in evidence.devices if one.found and not one.is_cpu)
