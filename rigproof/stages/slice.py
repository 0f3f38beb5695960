"""All of a stage: what its folder hands over to the rest of rigproof."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from rigproof.criteria.criterion import Criterion
from rigproof.devices.specs import Spec
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import Plan, StagePlan
from rigproof.profiles.planning.stages import StageKind
from rigproof.records.recording import Recording
from rigproof.simulation.faults.kinds import FaultKind, Noticed
from rigproof.simulation.stage import SimulatedStage
from rigproof.stages.tables import StageTable

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class StageWork:
    """What the specs of a stage's workers are made from. `cpus`: those found, by node."""

    loaded: LoadedRig
    plan: Plan
    stage: StagePlan
    cpus: Mapping[str, float]


def without_tables(_recording: Recording) -> Iterable[StageTable]:
    """A stage that its verdicts tell all about."""
    return ()


@dataclass(frozen=True, slots=True)
class StageSlice:
    """One stage.

    `specs`: what each worker does, by worker. `criteria`, in the order in which reports show them.
    `faults`: those that these criteria are there to notice. `noticed`: how others show here, by name, where
    it is not as they do elsewhere.
    `tables`: what it measured besides verdicts.
    """

    kind: StageKind
    specs: Callable[[StageWork], Mapping[str, Spec]]
    simulated: SimulatedStage
    criteria: tuple[Criterion, ...] = ()
    faults: tuple[FaultKind, ...] = ()
    noticed: Mapping[str, Noticed] = field(default_factory=dict)
    tables: Callable[[Recording], Iterable[StageTable]] = without_tables

    @property
    def name(self) -> str:
        """The stage's name."""
        return self.kind.name


def stated(value: _Value | None) -> _Value:
    """A value that planning has found to be there."""
    if value is None:
        raise ValueError("the plan was made without it")
    return value
