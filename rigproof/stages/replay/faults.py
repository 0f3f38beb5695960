"""The faults that this stage's criteria must notice, and what they cannot notice."""

from rigproof.simulation.faults.injected import InjectedFault
from rigproof.simulation.faults.kinds import FaultKind, Noticed
from rigproof.simulation.stage import CardWork

FAULTS = (
    FaultKind(
        "wrong-gradient",
        "gpu",
        "one bit of one gradient flips in one of the replayed runs of training steps",
        ("training.replay", "compute.exact", "activity.gpu_active"),
        keys=("stage",),
        stage="replay",
    ),
    FaultKind(
        "loss-stuck",
        "gpu",
        "training steps repeat bit by bit, but train nothing: the loss does not fall",
        ("training.loss",),
        keys=("stage",),
        stage="replay",
    ),
)
NOTICED = {
    "gpu-idle": Noticed(ends="not measured"),
}


def unnoticed(fault: InjectedFault, _work: CardWork) -> str:
    """How fast its steps are does not matter."""
    return "it compares bits, and judges no rate" if fault.name == "throughput-sag" else ""
