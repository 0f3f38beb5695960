"""The plan: which worker does what, where, for how long; as data, as a run records it, and back."""

import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property

from pydantic import TypeAdapter, ValidationError

from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.tables.levels import LevelName
from rigproof.records.grouping import grouped
from rigproof.records.identity import DeviceKind
from rigproof.records.message_text import first_problem, one_line
from rigproof.records.recording import RecordedPlan


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
        found = grouped(self.workers, lambda worker: worker.subject)
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


_ADAPTER = TypeAdapter(Plan)


class PlanError(ValueError):
    """A recorded plan is missing, unreadable or impossible; the message says which and why."""


def recorded(plan: Plan) -> RecordedPlan:
    """The plan in the form in which a run records it."""
    return RecordedPlan(asdict(plan))


def restored(recorded_plan: RecordedPlan | None) -> Plan:
    """The plan that a run recorded. The data may come from anywhere, so all of it is checked.

    Raises:
        PlanError: there is none, it has not the shape of a plan, or it is impossible.
    """
    if recorded_plan is None:
        raise PlanError("the recording holds no plan")
    try:
        plan: Plan = _ADAPTER.validate_python(recorded_plan.plan)
    except (ValidationError, RecursionError) as error:
        reason = first_problem(error) if isinstance(error, ValidationError) else "nested too deep"
        raise PlanError(f"the recorded plan is not a valid plan: {reason}") from None
    names = [one.worker for one in plan.workers]
    if len(set(names)) < len(names):
        raise PlanError("the recorded plan has two workers of one name")
    if len(set(plan.stage_names)) < len(plan.stages):
        raise PlanError("the recorded plan has a stage twice")
    if plan.laps < 1:
        raise PlanError(f"the recorded plan has {plan.laps} laps")
    for worker in plan.workers:
        _require_worker(worker)
    for stage in plan.stages:
        _require_stage(stage)
    return plan


def _require_worker(worker: WorkerPlan) -> None:
    figures = (worker.gpu_share, worker.cpus, worker.vram_mib)
    if not all(0 <= one < math.inf for one in figures) or worker.gemm_size < 1:
        raise PlanError(f"the recorded plan has an impossible worker, {one_line(worker.worker, 60)}")


def _require_stage(stage: StagePlan) -> None:
    lengths = (stage.expected_s, stage.settle_s, stage.measure_s, stage.round_s, stage.shift_s)
    if not all(0 <= one < math.inf for one in lengths) or stage.turns < 1 or stage.shifts < 0:
        raise PlanError(f"the recorded plan has an impossible stage, {one_line(stage.name, 60)}")


def differing(plan: Plan, other: Plan) -> str:
    """The name of the first worker that the plans describe differently; empty if there is none.

    A worker that only one plan has counts too. The lengths of stages are not compared, since `--hw-duration`
    may have changed them for one run.
    """
    theirs = {one.worker: one for one in other.workers}
    for one in plan.workers:
        if theirs.pop(one.worker, None) != one:
            return one.worker
    return next(iter(theirs), "")
