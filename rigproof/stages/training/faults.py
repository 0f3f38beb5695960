"""Faults that this stage's criteria must notice, and what they cannot notice."""

from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.simulation.faults.kinds import FaultKind, Noticed
from rigproof.simulation.faults.lacks import no_peer
from rigproof.simulation.stage import CardWork
from rigproof.stages.training.settings import SPEEDUP, STEP, TrainingSettings


def unnoticed(fault: str, work: CardWork) -> str:
    """A card that slows down is only noticed if there is a step to compare with."""
    sku = work.device.sku
    if fault != "throughput-sag" or (sku is not None and sku.steady.figure(STEP.name) is not None):
        return ""
    alone = no_peer(work.loaded, work.device)
    return "no training step was measured on this card's model, and it has no peer" if alone else ""


def _no_speedup(_loaded: LoadedRig, device: PromisedDevice) -> str:
    known = device.sku is not None and device.sku.steady.figure(SPEEDUP.name) is not None
    return (
        ""
        if known or device.settings(TrainingSettings).training_speedup is not None
        else "no speed-up is known for this card"
    )


FAULTS = (
    FaultKind(
        "tensor-cores-unused",
        "gpu",
        "16-bit training steps take as long as 32-bit ones",
        ("precision.speedup", "training.step"),
        keys=("stage",),
        stage="training",
        lacks=_no_speedup,
    ),
)
NOTICED = {
    "throughput-sag": Noticed("after=10%,by=60%", "training.step"),
    "telemetry-gap": Noticed("after=30%,for=20%"),  # its last quarter is not measured
}
