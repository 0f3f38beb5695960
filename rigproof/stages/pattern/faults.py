"""Faults that this stage's criteria must notice."""

from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.simulation.faults.injected import InjectedFault
from rigproof.simulation.faults.kinds import FROM, FaultKind
from rigproof.simulation.stage import CardWork
from rigproof.stages.pattern.settings import STAGE


def _has_sensor(_loaded: LoadedRig, device: PromisedDevice) -> str:
    known = device.sku is not None and "memory_temperature" not in device.sku.unsupported_sensors
    return "its memory's own sensor is judged" if known else ""


FAULTS = (
    FaultKind(
        "vram-stuck-bit",
        "gpu",
        "a bit of its memory is stuck: a word is wrong again when it is read again",
        ("memory.pattern",),
        keys=FROM,
        duties=("continuous", "bursts", "arms"),
        in_memory=True,
    ),
    FaultKind(
        "vram-soft-error",
        "gpu",
        "a word of its memory is read wrong once, and right when it is read again",
        ("memory.pattern",),
        keys=("stage", "after"),
        defaults={"after": "50%"},
        stage=STAGE,
    ),
    FaultKind(
        "vram-hot",
        "gpu",
        "its memory gets too hot and lowers its clock, which no sensor reports",
        ("memory.hot",),
        keys=("stage", "by"),
        defaults={"by": "20%"},
        stage=STAGE,
        lacks=_has_sensor,
    ),
)


def unnoticed(fault: InjectedFault, _work: CardWork) -> str:
    """A slower core does not slow the memory down."""
    return "its rates follow the memory, not the core" if fault.name == "throughput-sag" else ""
