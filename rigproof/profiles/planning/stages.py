"""What the rest of rigproof knows of each stage: checks of no single one select by duty, never by name.

A duty says what a healthy device does while the stage runs:

- `continuous`: it works without a break, all its workers together, from warm-up to end;
- `fed`: it works whenever the host has work for it, so that waiting is what the stage measures;
- `bursts`: it works in stretches of different work, with set-up in between;
- `arms`: it does comparable work in several stretches, one for each arm (a precision, a number of processes).

The stages themselves stand above profiles, each in a folder of its own, and declare themselves here
(`rigproof.stages.registry`).
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from rigproof.profiles.planning.plan import StagePlan
from rigproof.profiles.tables.models import Level
from rigproof.records.crews import CrewKind

Duty = Literal["continuous", "fed", "bursts", "arms"]
DUTIES: tuple[Duty, ...] = get_args(Duty)


@dataclass(frozen=True, slots=True)
class StageKind:
    """One stage.

    `length_key` is the level's key of its fixed length; None where it ends when its rates have settled.
    `plan`: how it goes at a level, where it does not just work for that long. `optional`: a level that
    leaves the length out, or says 0, goes without it. `crew`: who works together. `spawns`: a worker
    starts processes of its own there that work on its device. `arms`: what they differ in, where it has
    some. `host_load`: the hosts' CPUs are held in their band.
    """

    name: str
    duty: Duty
    length_key: str | None
    optional: bool = False
    crew: CrewKind = "devices"
    spawns: bool = False
    arms: str = ""
    host_load: bool = False
    plan: Callable[[Level], StagePlan] | None = None

    @property
    def by_device(self) -> bool:
        """Whether each device works by itself; else what is done is judged of the crew, not of a device."""
        return self.crew in ("workers", "devices")

    @property
    def all_workers(self) -> bool:
        """Whether every planned worker takes part; else the first one of each device."""
        return self.crew == "workers"

    def planned(self, level: Level) -> StagePlan | None:
        """Its plan at a level that states all that it needs; None where the level goes without it."""
        if self.plan is not None:
            return self.plan(level)
        length_s = getattr(level, self.length_key) if self.length_key else None
        if not length_s or level.round_s is None:
            return None
        return StagePlan(self.name, length_s, settle_s=0.0, measure_s=length_s, round_s=level.round_s)


_kinds: dict[str, StageKind] = {}


def declare(kinds: Iterable[StageKind]) -> None:
    """Say which stages there are, in the order in which they run."""
    _kinds.clear()
    _kinds.update({kind.name: kind for kind in kinds})


def stage_kinds() -> tuple[StageKind, ...]:
    """All of them. RuntimeError before any is declared: a rig without a stage would promise nothing."""
    return tuple(_declared().values())


def stage_names() -> tuple[str, ...]:
    """Their names."""
    return tuple(_declared())


def stage_kind(name: str) -> StageKind:
    """The declaration of a stage; KeyError where there is none of that name."""
    return _declared()[name]


def with_duty(stages: Collection[str], duties: Collection[Duty]) -> tuple[str, ...]:
    """Those of the stages whose duty is one of these, in the order in which they run.

    Only those in which each device works by itself: a device that waits for its pair's turn shirks nothing.
    """
    kinds = (kind for kind in stage_kinds() if kind.name in stages and kind.by_device)
    return tuple(kind.name for kind in kinds if kind.duty in duties)


def _declared() -> dict[str, StageKind]:
    if not _kinds:
        raise RuntimeError("no stage is declared: import rigproof.stages.registry first")
    return _kinds
