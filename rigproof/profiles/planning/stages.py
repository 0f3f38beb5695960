"""What the rest of rigproof knows of each stage: checks of no single one select by duty, never by name.

A duty says what a healthy device does while the stage runs:

- `continuous`: it works without a break, all its workers together, from warm-up to end;
- `fed`: it works whenever the host has work for it, so that waiting is what the stage measures;
- `bursts`: it works in stretches of different work, with set-up in between;
- `arms`: it does comparable work in several stretches, one for each arm (a precision, a number of processes).

The stages themselves stand above profiles, each in a folder of its own, and declare themselves here
(`rigproof.stages.registry`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from rigproof.profiles.planning.plan import StagePlan
from rigproof.profiles.tables.models import Level
from rigproof.records.measurements import EVENT_KINDS, Labels

Duty = Literal["continuous", "fed", "bursts", "arms"]
DUTIES: tuple[Duty, ...] = get_args(Duty)


@dataclass(frozen=True, slots=True)
class Label:
    """What a stage's rounds say of themselves. `kind`: str or int.

    `work`: rounds that differ in it are different work, in stretches of their own. `process`: it tells which
    of the processes that a worker has started did the round.
    """

    name: str
    kind: type[str] | type[int]
    work: bool = False
    process: bool = False


@dataclass(frozen=True, slots=True)
class StageKind:
    """One stage.

    `length_key` is the level's key of its fixed length; None where it ends when its rates have settled.
    `plan`: how it goes at a level, where it does not just work for that long. `optional`: a level that
    leaves the length out, or says 0, goes without it. `all_workers`: every planned worker takes part;
    else the first one of each device. `spawns`: a worker starts processes of its own there that work on
    its device. `arms`: what they differ in, where it has some. `host_load`: the hosts' CPUs are held in
    their band. `faults`: those of a simulated rig that can act in it, and that a check of it notices, by
    name. `labels`: those of its rounds; one of several stages means the same in all of them. `events`: the
    kinds that it alone tells, beside EVENT_KINDS, with what they mean.
    """

    name: str
    duty: Duty
    length_key: str | None
    optional: bool = False
    all_workers: bool = False
    spawns: bool = False
    arms: str = ""
    host_load: bool = False
    faults: tuple[str, ...] = ()
    plan: Callable[[Level], StagePlan] | None = None
    labels: tuple[Label, ...] = ()
    events: Mapping[str, str] = field(default_factory=dict)

    def planned(self, level: Level) -> StagePlan | None:
        """Its plan at a level that states all that it needs; None where the level goes without it."""
        if self.plan is not None:
            return self.plan(level)
        length_s = getattr(level, self.length_key) if self.length_key else None
        if not length_s or level.round_s is None:
            return None
        return StagePlan(self.name, length_s, settle_s=0.0, measure_s=length_s, round_s=level.round_s)


# What can go wrong under any load: the card, its driver and sensors, its worker's process, the node.
ANY_LOAD = (
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
MULTIPLIED = ("bit-flip", "throughput-sag")  # where the same products are done again and again
STEADY = ("sensor-shifted",)  # told by the energy of ten steady seconds
BESIDE_CPU_LOAD = ("cpu-saturated", "cpu-starved", "host-frozen")

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
    """Those of the stages whose duty is one of these, in the order in which they run."""
    return tuple(kind.name for kind in stage_kinds() if kind.name in stages and kind.duty in duties)


Told = tuple[tuple[str, str | int], ...]


def same_work(stage: str, labels: Labels) -> Told:
    """The labels that make rounds of a stage the same work."""
    return _kept(stage, labels, lambda one: one.work)


def same_process(stage: str, labels: Labels) -> Told:
    """The labels that tell which process of a worker did a round; empty where the worker itself did it."""
    return _kept(stage, labels, lambda one: one.process)


def event_kinds() -> dict[str, str]:
    """All kinds of events with what they mean: the general ones, and those of each stage."""
    return EVENT_KINDS | {kind: told for one in stage_kinds() for kind, told in one.events.items()}


def _kept(stage: str, labels: Labels, which: Callable[[Label], bool]) -> Told:
    kind = _kinds.get(stage)
    kept = () if kind is None else kind.labels
    return tuple((one.name, labels[one.name]) for one in kept if which(one) and one.name in labels)


def _declared() -> dict[str, StageKind]:
    if not _kinds:
        raise RuntimeError("no stage is declared: import rigproof.stages.registry first")
    return _kinds
