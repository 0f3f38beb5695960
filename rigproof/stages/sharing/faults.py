"""The fault that the criterion of this stage is there to notice."""

from rigproof.simulation.faults.kinds import FaultKind

FAULTS = (
    FaultKind(
        "sharing-collapse",
        "gpu",
        "processes that share the card keep each other from working",
        ("scaling.sharing",),
        keys=("stage", "by"),
        defaults={"by": "50%"},
        stage="sharing",
    ),
)
