"""The PCIe link of a simulated card: its state, and the errors that the host's kernel counts on it."""

from collections.abc import Sequence

from rigproof.host.pcie_errors import ErrorCounts, LinkErrors
from rigproof.simulation.faults.injected import StageWindow
from rigproof.simulation.silicon.card import SimulatedCard

IDLE_GENERATION = 1  # a link without traffic slows down to save power
WIDTH, NARROW = 16, 4  # lanes; under the fault pcie-narrow
OTHER_GENERATION = 4  # of a card whose SKU file states none
CORRECTABLE_PER_S = 100.0  # of the fault pcie-errors: half a second has more than a minute may have


def link_of(card: SimulatedCard, t_s: float, stages: Sequence[StageWindow]) -> tuple[int, int]:
    """Generation and width of the link under load."""
    generation, width = int(card.sku.pcie_generation or OTHER_GENERATION), WIDTH
    degraded = card.acting("pcie-degraded", t_s, stages)
    narrow = card.acting("pcie-narrow", t_s, stages)
    if degraded is not None:
        generation = int(degraded.to or 1)
    if narrow is not None:
        width = int(narrow.to or NARROW)
    return generation, width


def link_errors(card: SimulatedCard, t_s: float, stages: Sequence[StageWindow]) -> LinkErrors:
    """The errors since boot, which only grow; the port sees those that the card reports, and as many."""
    climbing = card.begun("pcie-errors", t_s, stages)
    window = climbing.window(stages) if climbing is not None else None
    correctable = 0 if window is None else 1 + int(CORRECTABLE_PER_S * (t_s - window[0]))
    lost = int(card.begun("pcie-uncorrected", t_s, stages) is not None)
    counts = ErrorCounts(fatal=0, nonfatal=lost, correctable=correctable)
    return LinkErrors(counts, f"0000:00:{card.index + 1:02x}.0", ErrorCounts(0, 0, correctable))
