"""The fault that this stage's criterion must notice, and what it cannot notice."""

from rigproof.simulation.faults.injected import InjectedFault
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.simulation.stage import CardWork

FAULTS = (
    FaultKind(
        "vram-slow",
        "gpu",
        "the card's memory is slower than that of its model",
        ("memory.bandwidth",),
        keys=("stage", "by"),
        defaults={"by": "40%"},
        stage="bandwidth",
    ),
)


def unnoticed(fault: InjectedFault, _work: CardWork) -> str:
    """A slower core does not slow the memory down."""
    return "its rates follow the memory, not the core" if fault.name == "throughput-sag" else ""
