"""A GPU that a rig promises, and its work."""

from typing import Annotated, Literal

from pydantic import Field

from rigproof.profiles.tables.base import GemmSize, Overlay, Positive, Share, Table
from rigproof.profiles.tables.limits import Floors


class Gpu(Table):
    """One promised GPU and what its workers do."""

    sku: str = Field(
        description='GPU model: the name of its SKU file in hwprofiles/gpus, without .toml, or "unknown".'
    )
    uuid: str | None = Field(
        default=None,
        description="UUID of the one card that may take this place (`nvidia-smi -L` shows it). Left out: "
        "cards are assigned in NVML's order.",
    )
    device: Literal["cuda", "cpu"] = Field(
        default="cuda", description='"cuda": a GPU. "cpu": the CPU works in place of a GPU. Left out: "cuda".'
    )
    workers: Annotated[int, Field(ge=1, le=64, strict=True)] = Field(
        default=1,
        description="Number of worker processes that share the GPU. More than one cost throughput. Left "
        "out: 1.",
    )
    gpu_share: Share | None = Field(
        default=None, description="Share of the GPU that Ray reserves for each worker. Left out: 1 / workers."
    )
    cpus_per_worker: Positive | None = Field(
        default=None,
        description="CPUs that Ray reserves for each worker; for the CPU as the device, its number of "
        "threads. Left out: as in [gpu_defaults].",
    )
    vram_share: Share | None = Field(
        default=None,
        description="Share of the card's memory that all its workers fill together. Left out: as in "
        "[gpu_defaults].",
    )
    vram_gib_per_worker: Positive | None = Field(
        default=None, description="Memory that each worker fills, in GiB. Left out: vram_share says how much."
    )
    gemm_size: GemmSize | None = Field(
        default=None,
        description="Size of the square matrices that are multiplied (M = N = K). Left out: as in "
        "[gpu_defaults].",
    )
    memory_gib: Positive | None = Field(
        default=None,
        description="Memory of the card, in GiB. Left out: the SKU file's; for an unknown card of this "
        "machine, what is found.",
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
