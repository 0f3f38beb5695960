"""Every stage, declared once. Checks of no single stage select stages by their duty, never by name.

A duty says what a healthy device does while the stage runs:

- `continuous`: it works without a break, all its workers together, from warm-up to end;
- `fed`: it works whenever the host has work for it, so that waiting is what the stage measures;
- `bursts`: it works in stretches of different work, with set-up in between;
- `arms`: it does comparable work in several stretches, one for each arm (a precision, a number of processes).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Duty = Literal["continuous", "fed", "bursts", "arms"]
DUTIES: tuple[Duty, ...] = get_args(Duty)


@dataclass(frozen=True, slots=True)
class StageKind:
    """One stage.

    `length_key` is the level's key of its fixed length; None where it ends when its rates have settled.
    `optional`: a level that leaves the length out, or says 0, goes without it. `all_workers`: every
    planned worker takes part; else the first one of each device. `spawns`: a worker starts processes of
    its own there that work on its device. `arms`: what they differ in, where it has some. `faults`:
    those of a simulated rig that can act in it, and that a check of it notices, by name.
    """

    name: str
    duty: Duty
    length_key: str | None
    optional: bool = False
    all_workers: bool = False
    spawns: bool = False
    arms: str = ""
    faults: tuple[str, ...] = ()


# What can go wrong under any load: the card, its driver and sensors, its worker's process, the node.
_ANY_LOAD = (
    "node-lost",
    "reset",
    "gpu-lost",
    "gpu-idle",
    "overheat",
    "heat-spike",
    "early-heat",
    "memory-overheat",
    "stranger-computes",
    "stranger-takes-memory",
    "stranger-crashes",
    "thermal-throttle",
    "power-brake",
    "power-over-limit",
    "clock-stuck",
    "clock-locked",
    "pcie-degraded",
    "pcie-replays",
    "ecc-uncorrected",
    "ecc-corrected-rate",
    "row-remap-pending",
    "row-remap-failed",
    "xid",
    "recovery-wanted",
    "nvml-hang",
    "sensor-missing",
    "sensor-frozen",
    "sensor-impossible",
    "telemetry-gap",
    "hung-kernel",
    "worker-killed",
    "worker-frozen",
    "timeout",
)
_MULTIPLIED = ("bit-flip", "throughput-sag")  # where the same products are done again and again
_STEADY = ("sensor-shifted",)  # told by the energy of ten steady seconds
_BESIDE_CPU_LOAD = ("cpu-saturated", "cpu-starved", "host-frozen")
_FED = (
    "temperature-out-of-range",
    "power-out-of-range",
    "clock-drops-idle",
    "rewards-slow",
    "rewards-differ",
    "rewards-crash",
    "gpu-starved",
    "gpu-half-used",
)

# In the order in which they run.
STAGE_KINDS = (
    StageKind("gemm", "arms", None, arms="precision", faults=(*_ANY_LOAD, *_MULTIPLIED)),
    StageKind(
        "sustained",
        "continuous",
        "sustained_s",
        all_workers=True,
        faults=(*_ANY_LOAD, *_MULTIPLIED, *_STEADY, *_BESIDE_CPU_LOAD, "straggler", "oom-retry"),
    ),
    StageKind(
        "training",
        "bursts",
        "training_s",
        optional=True,
        faults=(*_ANY_LOAD, "throughput-sag", "tensor-cores-unused"),
    ),
    StageKind("feeding", "fed", "feeding_s", optional=True, faults=(*_ANY_LOAD, *_STEADY, *_FED)),
    StageKind(
        "sharing",
        "arms",
        "sharing_s",
        optional=True,
        spawns=True,
        arms="processes",
        faults=(*_ANY_LOAD, *_MULTIPLIED, "sharing-collapse"),
    ),
)
STAGES = tuple(kind.name for kind in STAGE_KINDS)
FIRST_WORKER_ONLY = tuple(kind.name for kind in STAGE_KINDS if not kind.all_workers)
_BY_NAME = {kind.name: kind for kind in STAGE_KINDS}


def stage_kind(name: str) -> StageKind:
    """The declaration of a stage; KeyError where there is none of that name."""
    return _BY_NAME[name]


def with_duty(stages: Collection[str], duties: Sequence[Duty]) -> tuple[str, ...]:
    """Those of the stages whose duty is one of these, in the order in which they run."""
    return tuple(kind.name for kind in STAGE_KINDS if kind.name in stages and kind.duty in duties)
