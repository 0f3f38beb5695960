"""The faults that this stage's criterion must notice."""

from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.simulation.faults.injected import InjectedFault
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.simulation.stage import CardWork
from rigproof.stages.transient.settings import STAGE

CRITERION = "power.transient"
SHOWN = ("xid", "power-brake", "bit-flip", "out-of-phase", "throughput-sag")
OF_PROCESSES = ("hung-kernel", "worker-killed", "worker-frozen", "timeout")
OF_DRIVERS = ("gpu-lost", "nvml-hang", "ecc-uncorrected", "recovery-wanted")
COUNTED = ("pcie-replays",)  # and read after the run


def _alone(loaded: LoadedRig, device: PromisedDevice) -> str:
    """Lacks another GPU on its node, with which it could be out of phase."""
    nodes = [one.node for one in loaded.devices() if one.gpu.device == "cuda"]
    return "" if nodes.count(device.node) > 1 else "its node has no other GPU"


FAULTS = (
    FaultKind(
        "psu-sag",
        "node",
        "the power supply gives way: each GPU loses by= of its rate once a second one takes part, or halfway "
        "through the waves where there is no second one",
        (CRITERION,),
        keys=("stage", "by"),
        defaults={"by": "30%"},
        stage=STAGE,
    ),
    FaultKind(
        "out-of-phase",
        "gpu",
        "its bursts begin late by to= milliseconds, so that there are no waves over all GPUs",
        (CRITERION,),
        ends="not measured",
        keys=("stage", "to"),
        defaults={"to": "12"},
        stage=STAGE,
        lacks=_alone,
    ),
)


def unnoticed(fault: InjectedFault, _work: CardWork) -> str:
    """Sensors of a single card are not judged while the load switches; what concerns the run always is."""
    known = (*SHOWN, *OF_PROCESSES, *OF_DRIVERS, *COUNTED)
    why = "its waves are judged by their consequences, not by each card's sensors"
    return "" if fault.name in known else why
