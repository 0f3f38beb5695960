"""The plan: which worker does what, where, for how long. Data only; `make_plan` derives it from a rig."""

from dataclasses import dataclass, replace
from functools import cached_property

from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.tables.levels import LevelName
from rigproof.records.identity import DeviceKind


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """How a worker takes VRAM: the profile's `memory` table, filled in. By default there is no policy.

    `cap_mib` is the worker's part of `fraction_share`; None: no cap. The keys are explained in
    docs/profiles.md.
    """

    enabled: bool = False
    expandable_segments: bool = False
    max_split_size_mib: int | None = None
    roundup_power2_divisions: int | None = None
    cap_mib: float | None = None
    start_share: float = 1.0
    step_share: float = 1.0
    retry_share: float = 0.9
    last_resort_mib: float = 100.0
    mixed_precision: bool = True
    cleanup_rounds: int | None = None
    batch_step: int = 1
    least_batch: int = 1
    emergency_size: int = 64
    size_share: float = 0.7
    least_size: int = 64
    cpu_fallback: bool = False
    monitor_s: float = 1.0


NO_POLICY = MemoryPlan()


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """A worker process: its place, its share of the device, its operands."""

    worker: str  # "pc1/gpu0#0"
    subject: str  # "pc1/gpu0"
    node: str
    device: DeviceKind
    gpu_share: float  # of one GPU, as Ray counts it; 0 for the CPU as device
    cpus: float  # reserved with Ray; threads of the CPU as device
    vram_mib: float  # what its workload fills (RAM for the CPU as device)
    gemm_size: int
    memory: MemoryPlan = NO_POLICY


@dataclass(frozen=True)
class Plan:
    """Everything that a run will do."""

    level: LevelName
    workers: tuple[WorkerPlan, ...]
    stages: tuple[StagePlan, ...]
    expected_s: float  # start and stop included
    laps: int = 1  # how often it goes round its stages

    def workers_of(self, subject: str) -> tuple[WorkerPlan, ...]:
        """The workers planned for one device."""
        return self._by_subject.get(subject, ())

    @cached_property
    def _by_subject(self) -> dict[str, tuple[WorkerPlan, ...]]:
        found: dict[str, list[WorkerPlan]] = {}
        for worker in self.workers:
            found.setdefault(worker.subject, []).append(worker)
        return {subject: tuple(workers) for subject, workers in found.items()}

    def vram_mib_beside(self, worker: WorkerPlan) -> float:
        """MiB that all workers of this worker's device fill together, this worker included."""
        return sum(one.vram_mib for one in self.workers_of(worker.subject))

    def memory_beside(self, worker: WorkerPlan) -> MemoryPlan:
        """The worker's memory policy for work that it does alone on its device.

        Its cap is the sum of the caps of all workers of the device; there is none if one of them has none.
        """
        caps = [one.memory.cap_mib for one in self.workers_of(worker.subject)]
        together = None if None in caps else sum(cap for cap in caps if cap is not None)
        return replace(worker.memory, cap_mib=together)

    def first_workers(self) -> tuple[WorkerPlan, ...]:
        """The first worker of each device."""
        first: dict[str, WorkerPlan] = {}
        for worker in self.workers:
            first.setdefault(worker.subject, worker)
        return tuple(first.values())

    @property
    def stage_names(self) -> tuple[str, ...]:
        return tuple(stage.name for stage in self.stages)

    def stage(self, name: str) -> StagePlan:
        """The stage of that name; KeyError if the plan has none."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise KeyError(name)
