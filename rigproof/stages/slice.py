"""A stage as a whole: what its folder provides to the rest of rigproof."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rigproof.criteria.criterion import Criterion
from rigproof.devices.specs import Spec
from rigproof.profiles.kinds.stages import StageKind, StagePlan
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import Plan
from rigproof.records.identity import GpuIdentity
from rigproof.records.measurements import Round
from rigproof.records.recording import Recording
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.simulation.stage import SimulatedStage
from rigproof.stages.tables import StageTable, without_tables


@dataclass(frozen=True, slots=True)
class StageWork:
    """What the specs of a stage's workers are made from.

    `cpus`: the CPUs found, by node. `gpus`: the devices found, by promised subject.
    """

    loaded: LoadedRig
    plan: Plan
    stage: StagePlan
    cpus: Mapping[str, float]
    gpus: Mapping[str, GpuIdentity] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StageSlice:
    """One stage.

    `specs`: each worker's task, by worker. `criteria`: in the order in which reports show them.
    `faults`: those that these criteria must notice.
    `tables`: its measurements besides verdicts. `measured`: the rounds behind a subject's rate, if they are
    not all measured rounds.
    """

    kind: StageKind[Any]
    specs: Callable[[StageWork], Mapping[str, Spec]]
    simulated: SimulatedStage
    criteria: tuple[Criterion, ...] = ()
    faults: tuple[FaultKind, ...] = ()
    tables: Callable[[Recording], Iterable[StageTable]] = without_tables
    measured: Callable[[Recording, str], list[Round]] | None = None

    @property
    def name(self) -> str:
        """The stage's name."""
        return self.kind.name
