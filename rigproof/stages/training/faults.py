"""Faults that this stage's criteria must notice, and what they cannot notice."""

from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.simulation.faults.injected import InjectedFault
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.simulation.faults.lacks import no_peer
from rigproof.simulation.stage import CardWork
from rigproof.stages.training.settings import SPEEDUP, STEP, TrainingSettings

COMPARED = 0.4  # of the stage: until some of the fp16 steps were measured with which the sweep is compared


def unnoticed(fault: InjectedFault, work: CardWork) -> str:
    """A card with neither a figure of its model nor a peer is held against itself: its rate has to fall."""
    sku = work.device.sku
    known = sku is not None and sku.steady.figure(STEP.name) is not None
    if fault.name != "throughput-sag" or known or not no_peer(work.loaded, work.device):
        return ""
    share, after = work.device.limits.best_quarter_share, fault.after
    early = (
        fault.stage != "training"
        or after is None
        or after.value == 0
        or (after.share and after.value < COMPARED)
    )
    if share is not None and not early and (fault.by or 0.0) > 1 - share:
        return ""
    alone = "no training step was measured on this card's model, and it has no peer"
    least = (
        "" if share is None else f": write stage=training, after=40% and by={1 - share + 0.1:.0%}, or more"
    )
    return f"{alone}{least}"


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
