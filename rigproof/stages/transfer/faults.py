"""The faults that this stage's criteria must notice, and what cannot be noticed in it."""

from rigproof.simulation.faults.kinds import FaultKind
from rigproof.simulation.faults.lacks import unreported

FAULTS = (
    FaultKind(
        "pcie-slow",
        "gpu",
        "transfers are slow although the link reads what it should",
        ("transfer.h2d", "transfer.d2h", "transfer.both"),
        keys=("stage", "by"),
        defaults={"by": "50%"},
        stage="transfer",
        lacks=unreported("pcie", "its link to the host is not PCIe, so that its copies have no floor"),
    ),
    FaultKind(
        "pcie-corrupt",
        "gpu",
        "what arrives differs from what was sent, without any driver event",
        ("transfer.h2d", "transfer.d2h", "transfer.both", "compute.exact", "activity.gpu_active"),
        keys=("stage",),
        stage="transfer",
    ),
)
