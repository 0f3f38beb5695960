"""The fault that this stage's criterion must notice."""

from rigproof.simulation.faults.kinds import FaultKind, Noticed

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
NOTICED = {
    "throughput-sag": Noticed("after=60%,by=60%", "scaling.sharing"),
    "early-heat": Noticed("after=20%"),
    "gpu-idle": Noticed(ends="not measured"),
    "vram-stuck-bit": Noticed(criterion="activity.gpu_active"),  # as a wrong product
}
