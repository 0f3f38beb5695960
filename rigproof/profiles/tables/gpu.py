"""What is promised of a GPU, the work that it gets, and how its workers take VRAM."""

from typing import Annotated, Literal

from pydantic import Field

from rigproof.profiles.tables.base import Flag, GemmSize, Overlay, Portion, Positive, Share, Table, optional
from rigproof.profiles.tables.limits import Floors

Count = Annotated[int, Field(ge=1, le=2**16, strict=True)]
OfEight = Annotated[int, Field(ge=8, le=65536, multiple_of=8, strict=True)]


class MemoryPolicy(Table):
    """How workers take VRAM, and what they do when it does not suffice. Each decision is an event."""

    enabled: Flag = Field(
        description="false: the first failed allocation ends the worker's task, and of the keys below only "
        "`fraction_share`, `mixed_precision` and `monitor_s` apply.",
    )
    expandable_segments: Flag = Field(
        description="Option of torch's allocator that reduces fragmentation. A PYTORCH_ALLOC_CONF that is "
        "already set takes precedence."
    )
    max_split_size_mib: Annotated[int, Field(gt=20, le=2**20, strict=True)] | None = optional(
        "Option of torch's allocator: it does not split blocks larger than this, in MiB. Left "
        "out: torch's default."
    )
    roundup_power2_divisions: Annotated[int, Field(ge=1, le=64, strict=True)] | None = optional(
        "Option of torch's allocator: it rounds sizes up to this many steps between two powers "
        "of two; itself a power of two. Left out: torch's default."
    )
    fraction_share: Share | None = optional(
        "Largest share of the card's memory that torch may take, all workers of the card "
        "together. Left out: no cap."
    )
    start_share: Share = Field(
        description="A worker fills its memory up to a target, in steps (progressive allocation). The first "
        "step fills this share of the target."
    )
    step_share: Share = Field(description="Each later step adds this share of the target.")
    retry_share: Portion = Field(
        description="After each failed step the target is multiplied by this: 0.9 makes it 10 % smaller."
    )
    last_resort_mib: Positive = Field(description="Smallest target, in MiB, after repeated failures.")
    mixed_precision: Flag = Field(
        description="true: the sustained stage, and the training stage once it has compared the precisions, "
        "work in 16 bits. false: in fp32, which takes twice the memory."
    )
    cleanup_rounds: Count = Field(
        description="A worker collects garbage and frees cached memory every time that it has done this "
        "many rounds."
    )
    batch_step: Count = Field(
        description="Number of examples by which a training batch shrinks after each failed allocation."
    )
    least_batch: Count = Field(
        description="Smallest training batch that batch_step leads to. If that fails too, the batch shrinks "
        "by one example at a time."
    )
    emergency_size: GemmSize = Field(
        description="Matrix size (M = N = K) of the tiny products that continue if nothing larger fits."
    )
    size_share: Portion = Field(
        description="After each failed round the matrix size is multiplied by this: 0.7 about halves the "
        "memory of a matrix."
    )
    least_size: GemmSize = Field(description="Smallest matrix size that size_share leads to.")
    cpu_fallback: Flag = Field(
        description="true: if even the tiny products fail, the CPU continues; its work never counts as the "
        "GPU's. false: the task fails."
    )
    monitor_s: Positive = Field(description="Time between two readings of a worker's memory, in s.")


class Gpu(Table):
    """One promised GPU and what its workers do."""

    sku: str = Field(
        description='GPU model: the name of its SKU file in hwprofiles/gpus, without .toml, or "unknown".'
    )
    uuid: str | None = optional(
        "UUID of the one card that may take this place (`nvidia-smi -L` shows it). Left out: "
        "cards are assigned in NVML's order."
    )
    device: Literal["cuda", "cpu"] = Field(
        default="cuda", description='"cuda": a GPU. "cpu": the CPU works in place of a GPU. Left out: "cuda".'
    )
    workers: Annotated[int, Field(ge=1, le=64, strict=True)] = Field(
        default=1,
        description="Number of worker processes that share the GPU. More than one cost throughput. Left "
        "out: 1.",
    )
    gpu_share: Share | None = optional(
        "Share of the GPU that Ray reserves for each worker. Left out: 1 / workers."
    )
    cpus_per_worker: Positive | None = optional(
        "CPUs that Ray reserves for each worker; for the CPU as the device, its number of "
        "threads. Left out: as in [gpu_defaults]."
    )
    vram_share: Share | None = optional(
        "Share of the card's memory that all its workers fill together. Left out: as in [gpu_defaults]."
    )
    vram_gib_per_worker: Positive | None = optional(
        "Memory that each worker fills, in GiB. Left out: vram_share says how much."
    )
    gemm_size: GemmSize | None = optional(
        "Size of the square matrices that are multiplied (M = N = K). Left out: as in [gpu_defaults]."
    )
    memory_gib: Positive | None = optional(
        "Memory of the card, in GiB. Left out: the SKU file's; for an unknown card of this "
        "machine, what is found."
    )
    memory: Overlay = Field(
        default=Overlay(),
        description="How this GPU's workers take VRAM. A key that is left out is as in the rig's [memory].",
    )
    stages: Overlay = Field(
        default=Overlay(),
        description="This GPU's work and limits in each stage. A key that is left out is as in the rig's "
        "[stages].",
    )
    floors: Floors = Field(default=Floors(), description="Smallest rates that are accepted of this GPU.")
    limits: Overlay = Field(
        default=Overlay(),
        description="Limits for this GPU alone. A key that is left out is as in the rig's [limits].",
    )


class GpuDefaults(Table):
    """The work of a GPU that does not state its own."""

    vram_share: Share = Field(description="Share of the card's memory that all its workers fill together.")
    gemm_size: GemmSize = Field(description="Size of the square matrices that are multiplied (M = N = K).")
    cpus_per_worker: Positive = Field(description="CPUs that Ray reserves for each worker.")
    cpu_gemm_size: GemmSize = Field(description="Matrix size (M = N = K) if the CPU is the device.")
    cpu_vram_share: Share = Field(
        description="Share of the node's RAM that the workers fill if the CPU is the device."
    )
    cpu_thread_share: Share = Field(
        description="Number of threads, as a share of the node's CPUs, if the CPU is the device."
    )
