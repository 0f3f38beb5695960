"""All of a stage: what its folder hands over to the rest of rigproof."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rigproof.criteria.criterion import Criterion
from rigproof.devices.specs import Spec
from rigproof.profiles.kinds.stages import StageKind, StagePlan
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import Plan
from rigproof.records.measurements import Round
from rigproof.records.recording import Recording
from rigproof.simulation.faults.kinds import FaultKind, Noticed
from rigproof.simulation.stage import SimulatedStage
from rigproof.stages.tables import StageTable


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
    `tables`: what it measured besides verdicts. `measured`: the rounds behind the rate of a subject, where
    they are not all that it measured. `quiet_events`: what every good run has of it.
    """

    kind: StageKind[Any]
    specs: Callable[[StageWork], Mapping[str, Spec]]
    simulated: SimulatedStage
    criteria: tuple[Criterion, ...] = ()
    faults: tuple[FaultKind, ...] = ()
    noticed: Mapping[str, Noticed] = field(default_factory=dict)
    tables: Callable[[Recording], Iterable[StageTable]] = without_tables
    measured: Callable[[Recording, str], list[Round]] | None = None
    quiet_events: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The stage's name."""
        return self.kind.name
