"""Every stage, declared once. Checks of no single stage select stages by their duty, never by name.

A duty says what a healthy device does while the stage runs:

- `continuous`: it works without a break, all its workers together, from warm-up to end;
- `fed`: it works whenever the host has work for it, so that waiting is what the stage measures;
- `bursts`: it works in stretches of different work, with set-up in between;
- `arms`: it does comparable work in several stretches, one for each arm (a precision, a number of processes).
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

Duty = Literal["continuous", "fed", "bursts", "arms"]


@dataclass(frozen=True, slots=True)
class StageKind:
    """One stage.

    `length_key` is the level's key of its fixed length; None where it ends when its rates have settled.
    `optional`: a level that leaves the length out, or says 0, goes without it. `all_workers`: every planned
    worker takes part; else the first one of each device. `spawns`: a worker starts processes of its own there
    that work on its device.
    """

    name: str
    duty: Duty
    length_key: str | None
    optional: bool = False
    all_workers: bool = False
    spawns: bool = False


# In the order in which they run.
STAGE_KINDS = (
    StageKind("gemm", "arms", None),
    StageKind("sustained", "continuous", "sustained_s", all_workers=True),
    StageKind("training", "bursts", "training_s", optional=True),
    StageKind("feeding", "fed", "feeding_s", optional=True),
    StageKind("sharing", "arms", "sharing_s", optional=True, spawns=True),
)
STAGES = tuple(kind.name for kind in STAGE_KINDS)
FIRST_WORKER_ONLY = tuple(kind.name for kind in STAGE_KINDS if not kind.all_workers)
_BY_NAME = {kind.name: kind for kind in STAGE_KINDS}


def stage_kind(name: str) -> StageKind:
    """The declaration of a stage; KeyError where there is none of that name."""
    return _BY_NAME[name]


def with_duty(stages: Collection[str], duties: Collection[Duty]) -> tuple[str, ...]:
    """Those of the stages whose duty is one of these, in the order in which they run."""
    return tuple(kind.name for kind in STAGE_KINDS if kind.name in stages and kind.duty in duties)
