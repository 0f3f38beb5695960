"""What the rest of rigproof knows about each stage: general checks select stages by duty, never by name.

A duty says what a healthy device does while the stage runs:

- `continuous`: it works without a break, all its workers together, from warm-up to end;
- `fed`: it works whenever the host has work for it, so that the stage measures waiting;
- `bursts`: it does stretches of different work, with set-up in between;
- `arms`: it does comparable work in several stretches, one for each arm (a precision, a number of processes).

The stages themselves are in the layer above profiles, each in a folder of its own. The loader of a rig gets
the list of stages (`rigproof.stages.registry.KINDS`), and the loaded rig carries it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_args

from rigproof.profiles.kinds.figures import FigureKind
from rigproof.profiles.tables.levels import LevelName
from rigproof.profiles.tables.stages import StageSettings, TimedSettings
from rigproof.records.crews import CrewKind
from rigproof.records.measurements import EVENT_KINDS, Labels

if TYPE_CHECKING:  # the loaded rig carries the kinds
    from rigproof.profiles.loading.loaded import LoadedRig

Duty = Literal["continuous", "fed", "bursts", "arms"]
DUTIES: tuple[Duty, ...] = get_args(Duty)
S = TypeVar("S", bound=StageSettings)


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One stage. `expected_s` is its load's length, the same whatever the number of GPUs.

    Except if crews take turns, since each device is in several: then it is the length of all `turns`.
    """

    name: str
    expected_s: float
    settle_s: float
    measure_s: float  # for each arm that the stage plans, or the whole load
    round_s: float
    turns: int = 1

    def in_turns(self, turns: int) -> "StagePlan":
        """The plan of one turn, repeated that many times."""
        return replace(self, expected_s=turns * self.expected_s, turns=turns)


def no_problems(_loaded: "LoadedRig", _level: LevelName) -> Iterable[str]:
    """A stage whose settings are valid whenever their types are."""
    return ()


@dataclass(frozen=True, slots=True)
class Label:
    """What a stage's rounds say of themselves. `kind`: str or int.

    `work`: rounds that differ in it are different work, in stretches of their own. `process`: it says which
    of the processes that a worker has started did the round.
    """

    name: str
    kind: type[str] | type[int]
    work: bool = False
    process: bool = False


LabelValues = tuple[tuple[str, str | int], ...]  # names and values


@dataclass(frozen=True, slots=True, eq=False)
class StageKind(Generic[S]):
    """One stage.

    `settings`: its table. `figures`: what SKU files and floors state of it. `plan`: how it goes, by its
    settings, at a level, in rounds of so many seconds, where it does not just work for its `length_s`; None:
    not at this level. `lint`: what is wrong with a rig's settings of it. `crew`: which workers work together.
    `spawns`: how many processes of its own a worker has on its device there at once, where it starts some.
    `arms`: what they differ in, where it has some. `host_load`: the hosts' CPUs are held in their band.
    `labels`: those of its rounds; one of several stages means the same in all of them. `events`: the kinds
    that it alone reports, beside EVENT_KINDS, with what they mean.
    """

    name: str
    duty: Duty
    settings: type[S]
    figures: tuple[FigureKind, ...] = ()
    plan: Callable[[S, LevelName, float], StagePlan | None] | None = None
    lint: Callable[["LoadedRig", LevelName], Iterable[str]] = no_problems
    crew: CrewKind = "devices"
    spawns: Callable[[S], int] | None = None
    arms: str = ""
    host_load: bool = False
    labels: tuple[Label, ...] = ()
    events: Mapping[str, str] = field(default_factory=dict)

    @property
    def by_device(self) -> bool:
        """Whether each device works by itself; otherwise the crew is judged, not a device."""
        return self.crew in ("workers", "devices")

    @property
    def all_workers(self) -> bool:
        """Whether every planned worker takes part; else the first one of each device."""
        return self.crew == "workers"

    def planned(self, settings: S, level: LevelName, round_s: float) -> StagePlan | None:
        """Its plan at a level; None if the level does not have it."""
        if self.plan is not None:
            return self.plan(settings, level, round_s)
        length_s = self.length_s(settings, level)
        if not length_s:
            return None
        return StagePlan(self.name, length_s, settle_s=0.0, measure_s=length_s, round_s=round_s)

    def length_s(self, settings: S, level: LevelName) -> float:
        """The time that it is given at a level; 0: not at that level, or it ends when its rates settle."""
        return settings.length_s.at(level) if isinstance(settings, TimedSettings) else 0.0


@dataclass(frozen=True, eq=False)
class StageKinds:
    """All stages, in the order in which they run."""

    kinds: tuple[StageKind[Any], ...]

    def __eq__(self, other: object) -> bool:
        """The same stages with the same tables, even after pickling to another process."""
        return isinstance(other, StageKinds) and self._tables == other._tables

    def __hash__(self) -> int:
        return hash(self._tables)

    @cached_property
    def _tables(self) -> tuple[object, ...]:
        return tuple(
            (kind.name, kind.settings, tuple(one.name for one in kind.figures)) for kind in self.kinds
        )

    def __iter__(self) -> Iterator[StageKind[Any]]:
        return iter(self.kinds)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> StageKind[Any]:
        """KeyError if there is none of that name."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, StageKind[Any]]:
        return {kind.name: kind for kind in self.kinds}

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
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
        """The labels that make rounds of a stage the same work."""
        return self._kept(stage, labels, lambda one: one.work)

    def same_process(self, stage: str, labels: Labels) -> LabelValues:
        """The labels that say which process of a worker did a round; none where the worker itself did it."""
        return self._kept(stage, labels, lambda one: one.process)

    def _kept(self, stage: str, labels: Labels, which: Callable[[Label], bool]) -> LabelValues:
        kept = self[stage].labels if stage in self else ()
        return tuple((one.name, labels[one.name]) for one in kept if which(one) and one.name in labels)

    def of_figure(self, figure: FigureKind) -> StageKind[Any]:
        """The stage that measures it."""
        return next(kind for kind in self.kinds if any(one.name == figure.name for one in kind.figures))

    def with_duty(self, stages: Collection[str], duties: Collection[Duty]) -> tuple[str, ...]:
        """The stages with one of these duties, in the order in which they run.

        Only those in which each device works by itself: a device that waits for its pair's turn is
        not idle by its own fault.
        """
        kinds = (kind for kind in self.kinds if kind.name in stages and kind.by_device)
        return tuple(kind.name for kind in kinds if kind.duty in duties)

    def only(self, names: Collection[str]) -> "StageKinds":
        """The stages of these names; itself if these are all."""
        left = tuple(kind for kind in self.kinds if kind.name in names)
        return self if len(left) == len(self.kinds) else StageKinds(left)
