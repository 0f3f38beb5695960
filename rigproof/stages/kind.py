"""A stage as a whole: what its folder provides to the rest of rigproof."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from types import ModuleType

from rigproof.criteria.criterion import Criterion
from rigproof.devices.further import Further
from rigproof.devices.specs import GLOO, NCCL, Spec
from rigproof.profiles.kinds.stages import S, StageFacts, StagePlan
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.planning.plan import Plan, WorkerPlan
from rigproof.records.grouping import grouped
from rigproof.records.identity import GpuIdentity
from rigproof.records.measurements import Round
from rigproof.records.recording import Recording
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.simulation.stage import SimulatedForm
from rigproof.stages.tables import StageTable, rates


@dataclass(frozen=True)
class StageWork:
    """What the specs of a stage's workers are made from.

    `cpus`: the CPUs found, by node. `gpus`: the devices found, by promised subject,
    in a stage that exchanges data without those that have to be left out.
    """

    loaded: LoadedRig
    plan: Plan
    stage: StagePlan
    cpus: Mapping[str, float]
    gpus: Mapping[str, GpuIdentity] = field(default_factory=dict)

    @cached_property
    def devices(self) -> dict[str, PromisedDevice]:
        """The promised devices, by subject."""
        return {device.subject: device for device in self.loaded.devices()}

    def backend(self, node: str = "") -> str:
        """What all devices of the rig, or of a node, exchange data by: gloo where one is a CPU, else NCCL."""
        devices = self.on_host[node] if node else self.plan.first_workers()
        return NCCL if all(one.device == "cuda" for one in devices) else GLOO

    @cached_property
    def on_host(self) -> dict[str, list[WorkerPlan]]:
        """The first worker of each device, by node, in the profile's order."""
        return grouped(self.plan.first_workers(), lambda worker: worker.node)


@dataclass(frozen=True, slots=True, eq=False)
class StageKind(StageFacts[S]):
    """One stage, whole. Its stage.py makes it; what its other files provide is looked up in them by name.

    `spec`: one worker's task, from its device's settings or, if it stands for its node, from the node's; None
    if it has none. `further`: one more turn, after those of the plan and by what the recording has so far;
    None if the stage is over.
    """

    spec: Callable[[StageWork, WorkerPlan, S], Spec | None] = field(kw_only=True)
    further: Callable[[StageWork, Recording], Further | None] | None = field(default=None, kw_only=True)

    def specs(self, work: StageWork) -> dict[str, Spec]:
        """Each worker's task: of all, if workers or nodes are the crews; else of each device's first one."""
        found: dict[str, Spec] = {}
        everyone = self.all_workers or self.by_node
        for worker in work.plan.workers if everyone else work.plan.first_workers():
            if self.by_node:
                settings = work.loaded.settings_of(worker.node, self.settings)
            else:
                settings = work.devices[worker.subject].settings(self.settings)
            if (spec := self.spec(work, worker, settings)) is not None:
                found[worker.worker] = spec
        return found

    def _file(self, name: str) -> ModuleType:
        """A file of the stage's folder, imported when it is asked for: a worker never asks."""
        return import_module(f"rigproof.stages.{self.name}.{name}")

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """Its criteria, in the order in which reports show them."""
        found: tuple[Criterion, ...] = self._file("criteria").CRITERIA
        return found

    @property
    def tables(self) -> Callable[[Recording], Iterable[StageTable]]:
        """Makes the tables of its measurements, which reports show beside the verdicts.

        A stage whose criteria.py has none gets a table of the rates that it measured.
        """
        return getattr(self._file("criteria"), "tables", self._rates)

    def _rates(self, recording: Recording) -> Iterable[StageTable]:
        yield rates(recording, self, section=self.name.capitalize(), title="Rates")

    @property
    def measured(self) -> Callable[[Recording, str], list[Round]] | None:
        """Finds the rounds behind a subject's rate; None if they are all measured rounds."""
        return getattr(self._file("criteria"), "measured_rounds", None)

    @property
    def simulated(self) -> SimulatedForm:
        """How simulated silicon does its work."""
        found: SimulatedForm = self._file("simulated").SIMULATED
        return found

    @property
    def faults(self) -> tuple[FaultKind, ...]:
        """The faults that its criteria must notice."""
        found: tuple[FaultKind, ...] = self._file("simulated").FAULTS
        return found
