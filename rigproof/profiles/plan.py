"""The plan: which worker does what, where, for how long. Data only; `make_plan` derives it from a rig."""

from dataclasses import dataclass

from rigproof.profiles.models import LevelName
from rigproof.records.identity import DeviceKind

# Precisions after the first settle for this share of its time: the card is hot and at its power cap by then.
LATER_SETTLE_SHARE = 0.25
# The sustained stage settles for this share of its length at most, so that most of a short one is measured.
SUSTAINED_SETTLE_SHARE = 1 / 3


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """One worker process."""

    worker: str  # "pc1/gpu0#0"
    subject: str  # "pc1/gpu0"
    node: str
    device: DeviceKind
    gpu_share: float  # of one GPU, as Ray counts it; 0 for the CPU as device
    cpus: float  # reserved with Ray; threads of the CPU as device
    vram_mib: float  # what its sustained workload fills (RAM for the CPU as device)
    gemm_size: int


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One stage. `expected_s` is its load's length, the same whatever the number of GPUs."""

    name: str  # "gemm" | "sustained"
    expected_s: float
    settle_s: float
    measure_s: float  # per precision (gemm), or the whole load (sustained)
    round_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a run is going to do."""

    level: LevelName
    workers: tuple[WorkerPlan, ...]
    stages: tuple[StagePlan, ...]
    expected_s: float  # start and stop included

    def workers_of(self, subject: str) -> tuple[WorkerPlan, ...]:
        """The workers planned for one device."""
        return tuple(worker for worker in self.workers if worker.subject == subject)

    def stage(self, name: str) -> StagePlan:
        """The stage of that name; KeyError where the plan has none."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise KeyError(name)
