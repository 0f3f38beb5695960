"""What the rest of rigproof knows about each stage: general checks select stages by duty, never by name.

A duty says what a healthy device does while the stage runs:

- `continuous`: it works without a break, all its workers together, from warm-up to end;
- `fed`: it works whenever the host has work for it, so that the stage measures waiting;
- `bursts`: it does stretches of different work, with set-up in between;
- `arms`: it does comparable work in several stretches, one for each arm (a precision, a number of processes);
- `rests`: its cores rest, or nearly, since the stage measures something else, such as its link. Checks of
  clock, power and activity have nothing to judge there;
- `idle`: it has nothing to do, while its host is measured.

The stages themselves are in the layer above profiles, each in a folder of its own, and a stage's `StageKind`
adds to its facts what only that layer needs. The loader of a rig gets all of them
(`rigproof.stages.registry.KINDS`), and the loaded rig carries them.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_args

from rigproof.profiles.kinds.figures import FigureKind
from rigproof.profiles.tables.base import LimitKey, LimitKeys
from rigproof.profiles.tables.levels import LevelName
from rigproof.profiles.tables.stages import StageSettings, TimedSettings
from rigproof.records.crews import CrewKind
from rigproof.records.identity import GpuIdentity
from rigproof.records.measurements import EVENT_KINDS, TFLOP, Event, Labels

if TYPE_CHECKING:  # the loaded rig carries the kinds
    from rigproof.profiles.loading.loaded import LoadedRig

Duty = Literal["continuous", "fed", "bursts", "arms", "rests", "idle"]
ALL_DUTIES: tuple[Duty, ...] = get_args(Duty)
DEVICE_DUTIES: tuple[Duty, ...] = tuple(
    duty for duty in ALL_DUTIES if duty != "idle"
)  # of a device that is used
DUTIES: tuple[Duty, ...] = tuple(duty for duty in DEVICE_DUTIES if duty != "rests")  # its cores work
S = TypeVar("S", bound=StageSettings)
K_co = TypeVar("K_co", bound="StageFacts[Any]", covariant=True)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class StagePlan:
    """The planned length of one stage.

    `expected_s` is the length of its load. It does not depend on the number of GPUs, with two exceptions: if
    devices belong to several crews that take turns, it is the length of all `turns` together; and if the
    devices of a host (of neighbours: its pairs of devices) also work one at a time, for `shift_s` each, it
    includes the `shifts` of the host with the most. Turns are given out by the driver; shifts are kept by the
    workers, by their clock, since each is shorter than the driver's beat.
    """

    name: str
    expected_s: float
    settle_s: float
    measure_s: float  # of each arm, if the stage plans its arms; else of the whole load
    round_s: float
    turns: int = 1
    shift_s: float = 0.0
    shifts: int = 0

    def in_shifts(self, shifts: int) -> "StagePlan":
        """The plan with so many shifts in addition, if its stage has any."""
        if not self.shift_s:
            return self
        return replace(self, expected_s=self.expected_s + shifts * self.shift_s, shifts=shifts)

    def in_turns(self, turns: int) -> "StagePlan":
        """The plan made for one turn, as the plan of so many turns of the same length."""
        return replace(self, expected_s=turns * self.expected_s, turns=turns)


def nothing(*_about: object) -> Iterable[str]:
    """No sentences: nothing has to be said of a stage's settings beyond their types and ranges."""
    return ()


@dataclass(frozen=True, slots=True)
class Label:
    """A label that a stage gives to its rounds; its value is of type `kind`.

    A round without it, or with another value than one of `values`, is no valid measurement. `optional`:
    it may lack it. `work`: rounds with different values did different work, each in a stretch of time of
    its own. `rests`: between rounds with one of these values the device may rest. `process`: the value
    identifies the process that did the round, for a stage whose workers start processes. `amount`: it
    only says how much of the work the round did. `larger`: a step of a larger value does more work.
    `told`: the worker's recorded spec has it under the same name, and measured rounds with another value
    are no valid measurement; with a smaller one they are, if `may_shrink` or if the device ran out of
    memory in the stage.
    """

    name: str
    kind: type[str] | type[int]
    values: tuple[str, ...] = ()  # none stated: any
    optional: bool = False
    work: bool = False
    rests: tuple[str, ...] = ()
    process: bool = False
    amount: bool = False
    larger: bool = False
    told: bool = False
    may_shrink: bool = False

    def fits(self, labels: Labels) -> bool:
        """Whether a round with these labels may be one of the stage."""
        value = labels.get(self.name)
        if value is None:
            return self.optional
        kinds = (int, float) if self.amount else (self.kind,)
        return type(value) in kinds and (not self.values or value in self.values)


def _one(_spec: Mapping[str, Any]) -> float:
    return 1.0


def _always(_events: Sequence[Event]) -> bool:
    return True


def _never(_events: Sequence[Event]) -> bool:
    return False


@dataclass(frozen=True, slots=True, eq=False)
class Need:
    """The needs of a unit of a stage's work: `amount` in `unit` of the work of stages that measure a figure.

    By the worker's recorded spec; 0 if that does not say. `labels`: those that their work must share.
    """

    unit: str
    labels: tuple[str, ...] = ()
    amount: Callable[[Mapping[str, Any]], float] = _one


@dataclass(frozen=True, slots=True, eq=False)
class HeldAgainst:
    """A card's own work in other stages that lets expect its rate in this one: each need takes its time.

    The setting `own_share` of the stage is the share that it must reach. `words`: what that work is. `holds`:
    whether it can be held against it, by the events of the stage that are about it. `every`: all of the
    stage's work must reach it, not only the fastest.
    """

    words: str
    needs: tuple[Need, ...]
    holds: Callable[[Sequence[Event]], bool] = _always
    every: bool = False


def own_share(stage: str) -> LimitKey[float | None]:
    """The key of the share that a stage with `held_against` must reach."""
    return LimitKey(f"stages.{stage}", "own_share")


def host_paced_share(stage: str) -> LimitKey[float | None]:
    """The key by which steps of a stage with a `larger` label are those whose pace the host sets."""
    return LimitKey(f"stages.{stage}", "host_paced_share")


LabelValues = tuple[tuple[str, str | int], ...]  # names and values


@dataclass(frozen=True, slots=True, eq=False)
class StageFacts(Generic[S]):
    """The facts about one stage that profiles, criteria and the driver go by.

    - `settings`: the class of its table, [stages.<name>].
    - `figures`: the kinds of figures that it measures.
    - `plan`: makes its plan from its settings, the level and the length of a round in seconds; it returns
      None if the level leaves the stage out. A stage without `plan` works for its `length_s`.
    - `shortest_s`: the least length with which a GPU can be judged: its clock settles for 2 s, and is judged
      over 1 s without a break; the rest is the stage's own set-up. 0: any length will do.
    - `lint`: the problems of a rig's settings for this stage at a level, one sentence each.
    - `doubts`: what may be wrong with them and refuses no run, one sentence each.
    - `remarks`: what a user has to know about it before it runs, a line each; from the rig, the level, and
      the promised GPUs that were found on this machine.
    - `crew`: which workers work together.
    - `exchanges`: whether devices pass each other data that is verified, so that they are tested together.
    - `spawns`: from its settings, how many processes a worker starts on its device at most at once. None: its
      workers start no processes.
    - `arms`: what its arms differ in, such as "precision"; empty if it has no arms.
    - `apart`: whether its tasks use torch in a process of their own, which is made ready in an earlier stage:
      that of each crew member, or of the first alone.
    - `host_load`: whether each host's CPU use is held in its band during the stage.
    - `unit`: of the work of its rounds; a round in another unit is no valid measurement.
    - `labels`: the labels of its rounds. A label that several stages have means the same in all of them.
    - `held_against`: what lets expect its rates, for a stage without figures.
    - `left_out`: whether a device left out a part of its work and so ended early, by its events that only
      this stage reports.
    - `events`: the kinds of events that only this stage reports, with their meanings. All other kinds are in
      EVENT_KINDS.
    - `quiet_events`: those of them that every good run has.
    """

    name: str
    duty: Duty
    settings: type[S]
    figures: tuple[FigureKind, ...] = ()
    plan: Callable[[S, LevelName, float], StagePlan | None] | None = None
    shortest_s: float = 0.0
    lint: Callable[["LoadedRig", LevelName], Iterable[str]] = nothing
    doubts: Callable[["LoadedRig"], Iterable[str]] = nothing
    remarks: Callable[["LoadedRig", LevelName, Mapping[str, GpuIdentity]], Iterable[str]] = nothing
    crew: CrewKind = "devices"
    exchanges: bool = False
    spawns: Callable[[S], int] | None = None
    arms: str = ""
    apart: Literal["none", "first", "each"] = "none"
    host_load: bool = False
    unit: str = TFLOP
    labels: tuple[Label, ...] = ()
    held_against: HeldAgainst | None = None
    left_out: Callable[[Sequence[Event]], bool] = _never
    events: Mapping[str, str] = field(default_factory=dict)
    quiet_events: tuple[str, ...] = ()

    def key(self, field: Callable[[S], V]) -> LimitKey[V]:
        """The key of a limit in the stage's table: `KIND.key(lambda own: own.sharing_share)`."""
        return LimitKeys(f"stages.{self.name}", self.settings).key(field)

    @property
    def by_device(self) -> bool:
        """Whether each device works by itself; otherwise the crew is judged, not a device."""
        return self.crew in ("workers", "devices")

    @property
    def by_node(self) -> bool:
        """Whether a worker stands for its node, so that any worker of the node can do the work."""
        return self.crew in ("nodes", "node_pairs", "node_ring", "network")

    @property
    def all_workers(self) -> bool:
        """Whether every planned worker takes part; else the first one of each device."""
        return self.crew == "workers"

    def planned(self, settings: S, level: LevelName, round_s: float) -> StagePlan | None:
        """The stage's plan at a level, for one turn, with rounds of `round_s` seconds.

        None if the level leaves the stage out.
        """
        if self.plan is not None:
            return self.plan(settings, level, round_s)
        length_s = self.length_s(settings, level)
        if not length_s:
            return None
        return StagePlan(self.name, length_s, settle_s=0.0, measure_s=length_s, round_s=round_s)

    def length_s(self, settings: S, level: LevelName) -> float:
        """The length of the stage's load at a level, s.

        0 if the level leaves the stage out, or if the stage has no fixed length because it ends when its
        rates settle.
        """
        return settings.length_s.at(level) if isinstance(settings, TimedSettings) else 0.0


@dataclass(frozen=True, eq=False)
class Kinds(Generic[K_co]):
    """All stages, in the order in which they run."""

    kinds: tuple[K_co, ...]

    def __eq__(self, other: object) -> bool:
        """Whether both hold equal stages with equal tables, even after pickling to another process."""
        return isinstance(other, Kinds) and self._tables == other._tables

    def __hash__(self) -> int:
        return hash(self._tables)

    @cached_property
    def _tables(self) -> tuple[object, ...]:
        return tuple(
            (kind.name, kind.settings, tuple(one.name for one in kind.figures)) for kind in self.kinds
        )

    def __iter__(self) -> Iterator[K_co]:
        return iter(self.kinds)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> K_co:
        """The stage of that name. Raises KeyError if there is none."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, K_co]:
        return {kind.name: kind for kind in self.kinds}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._by_name)

    @cached_property
    def figures(self) -> dict[str, FigureKind]:
        """The figures of all stages, by name."""
        return {figure.name: figure for kind in self.kinds for figure in kind.figures}

    @cached_property
    def events(self) -> dict[str, str]:
        """All kinds of events with what they mean: the general ones, and those of each stage."""
        return EVENT_KINDS | {name: meaning for kind in self.kinds for name, meaning in kind.events.items()}

    def same_work(self, stage: str, labels: Labels) -> LabelValues:
        """Labels that tell what a round's work was: rounds with equal ones did the same work."""
        return self._kept(stage, labels, lambda one: one.work)

    def same_process(self, stage: str, labels: Labels) -> LabelValues:
        """Labels that identify the process that a worker started for a round.

        Empty if the worker itself did the round.
        """
        return self._kept(stage, labels, lambda one: one.process)

    def misfit(self, stage: str, labels: Labels) -> str:
        """The problem with the labels of a round of this stage, in words; empty if there is none."""
        for one in self[stage].labels if stage in self else ():
            if not one.fits(labels):
                value = labels.get(one.name)
                return f"without its {one.name}" if value is None else f"with {value!r} as its {one.name}"
        return ""

    def _kept(self, stage: str, labels: Labels, which: Callable[[Label], bool]) -> LabelValues:
        kept = self[stage].labels if stage in self else ()
        return tuple((one.name, labels[one.name]) for one in kept if which(one) and one.name in labels)

    def of_figure(self, figure: FigureKind) -> K_co:
        """The stage that measures this kind of figure."""
        return next(kind for kind in self.kinds if any(one.name == figure.name for one in kind.figures))

    def with_duty(self, stages: Collection[str], duties: Collection[Duty]) -> tuple[str, ...]:
        """The stages with one of these duties, in the order in which they run.

        Only those in which each device works by itself: a device that waits for its pair's turn is
        not idle by its own fault.
        """
        kinds = (kind for kind in self.kinds if kind.name in stages and kind.by_device)
        return tuple(kind.name for kind in kinds if kind.duty in duties)

    def only(self, names: Collection[str]) -> "Kinds[K_co]":
        """The stages that have one of these names; this same object if all of them do."""
        left = tuple(kind for kind in self.kinds if kind.name in names)
        return self if len(left) == len(self.kinds) else Kinds(left)


StageKinds = Kinds[StageFacts[Any]]  # as whatever lies below the stages knows them
