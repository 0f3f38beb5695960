"""The faults that this stage's criteria must notice."""

from rigproof.simulation.faults.kinds import FaultKind

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
