"""What a worker is told to do. Plain data, so that the driver needs no torch to say it."""

from dataclasses import dataclass

from rigproof.profiles.planning.plan import NO_POLICY, MemoryPlan


@dataclass(frozen=True, slots=True)
class GemmSpec:
    """Measure one device's steady GEMM rate, precision by precision.

    `precisions` empty means every one the device has. Each precision warms up until its rate
    settles, at most `settle_s` for the first and a quarter of that for the others, then measures for
    `measure_s`.
    """

    stage: str
    size: int
    precisions: tuple[str, ...]
    settle_s: float
    measure_s: float
    round_s: float


@dataclass(frozen=True, slots=True)
class SustainedSpec:
    """Fill `vram_mib` with operands and multiply them in 16-bit with 32-bit accumulation for `duration_s`."""

    stage: str
    size: int
    vram_mib: float
    duration_s: float
    settle_s: float
    round_s: float
    memory: MemoryPlan = NO_POLICY


@dataclass(frozen=True, slots=True)
class TrainingSpec:
    """Train a small transformer, sized from `vram_mib`, for `duration_s`: precisions, batch search, sweep.

    `batch` is the batch size at which the precisions are compared; `batches` those of the sweep. The search
    uses at most `target_share` of the device's memory and leaves `reserve_mib` of it free.
    """

    stage: str
    vram_mib: float
    duration_s: float
    round_s: float
    sequence: int
    model_share: float
    batch: int
    batches: tuple[int, ...]
    search: bool
    target_share: float
    reserve_mib: float
    tf32: bool
    cudnn_benchmark: bool
    memory: MemoryPlan = NO_POLICY


@dataclass(frozen=True, slots=True)
class FeedingSpec:
    """Generate `completions` a step on the device and compute their rewards in `processes` on the CPU.

    Generating a step takes as long as its rewards would with `reward_speedup` against sequential ones.
    """

    stage: str
    vram_mib: float
    duration_s: float
    round_s: float
    completions: int
    processes: int
    strategy_s: float
    strategy_memory_mib: float
    overlap: bool
    reward_speedup: float = 1.0


@dataclass(frozen=True, slots=True)
class SharingSpec:
    """The same products by each number of processes in `workers`, one after the other, on one device.

    `vram_mib` is for all processes together, `cpus` too.
    """

    stage: str
    size: int
    vram_mib: float
    duration_s: float
    round_s: float
    workers: tuple[int, ...]
    cpus: float


WorkloadSpec = GemmSpec | SustainedSpec | TrainingSpec | FeedingSpec | SharingSpec
