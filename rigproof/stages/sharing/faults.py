"""The fault that this stage's criterion must notice."""

from rigproof.simulation.faults.kinds import FaultKind

FAULTS = (
    FaultKind(
        "sharing-collapse",
        "gpu",
        "processes that share the card slow each other down",
        ("scaling.sharing",),
        keys=("stage", "by"),
        defaults={"by": "50%"},
        stage="sharing",
    ),
)
