"""Tables that say how a rig's work is done: how workers take VRAM, what they train, feed and share.

Every value is optional in a rig; `hwprofiles/defaults.toml` fills what a rig does not say.
"""

from typing import Annotated

from pydantic import Field

from rigproof.profiles.tables.base import Flag, GemmSize, Positive, Share, Table

Portion = Annotated[float, Field(gt=0, lt=1, strict=True)]
Count = Annotated[int, Field(ge=1, le=2**16, strict=True)]
OfEight = Annotated[int, Field(ge=8, le=65536, multiple_of=8, strict=True)]


class MemoryPolicy(Table):
    """How workers take VRAM, and what they do where it does not suffice. Each decision is an event."""

    enabled: Flag | None = Field(
        default=None,
        description="false: nothing is tried, the first failed allocation ends the worker's task, and of all "
        "below only `fraction_share`, `mixed_precision` and `monitor_s` hold",
    )
    expandable_segments: Flag | None = Field(
        default=None, description="PYTORCH_ALLOC_CONF: segments that grow, against fragmentation"
    )
    max_split_size_mib: Annotated[int, Field(gt=20, le=2**20, strict=True)] | None = Field(
        default=None, description="PYTORCH_ALLOC_CONF: larger blocks are not split; absent: torch's own"
    )
    roundup_power2_divisions: Annotated[int, Field(ge=1, le=64, strict=True)] | None = Field(
        default=None, description="PYTORCH_ALLOC_CONF: steps between powers of two; absent: torch's own"
    )
    fraction_share: Share | None = Field(
        default=None,
        description="cap on what torch takes, of the card, all its workers together; absent: none",
    )
    start_share: Share | None = Field(
        default=None, description="progressive allocation: its first step, of the target"
    )
    step_share: Share | None = Field(default=None, description="and each further step, of the target")
    retry_share: Portion | None = Field(
        default=None, description="what is left of the target after each failed step: 0.9 is 10 % less"
    )
    last_resort_mib: Positive | None = Field(
        default=None, description="target once every smaller one has failed"
    )
    mixed_precision: Flag | None = Field(
        default=None, description="16-bit operands and autocast; false: fp32"
    )
    cleanup_rounds: Count | None = Field(
        default=None, description="rounds between two cleanups (garbage collection, cached blocks given back)"
    )
    batch_step: Count | None = Field(
        default=None, description="examples that a training batch loses by each failure"
    )
    least_batch: Count | None = Field(default=None, description="and the least that it keeps")
    emergency_size: GemmSize | None = Field(
        default=None, description="M = N = K of the tiny operations that go on when nothing else fits"
    )
    size_share: Portion | None = Field(
        default=None, description="matrix size after each failure of a round, of the size before it"
    )
    least_size: GemmSize | None = Field(default=None, description="smallest matrix size that it learns")
    cpu_fallback: Flag | None = Field(
        default=None, description="go on with the CPU when the tiny operations fail too; never counts as GPU"
    )
    monitor_s: Positive | None = Field(
        default=None, description="seconds between two readings of a worker's memory"
    )


class Training(Table):
    """A small transformer's training step, sized from the device's memory."""

    sequence: OfEight | None = Field(default=None, description="tokens of an example")
    model_share: Portion | None = Field(
        default=None,
        description="weights, gradients and optimizer, of the worker's memory: gives the model's width",
    )
    batches: tuple[Count, ...] | None = Field(
        default=None, description="batch sizes of the sweep, examples; those that fit are measured"
    )
    batch: Count | None = Field(default=None, description="batch size that the precisions are compared at")
    search: Flag | None = Field(
        default=None, description="search for the largest batch that fits with the reserve"
    )
    target_share: Share | None = Field(
        default=None, description="most of the device's memory that the search uses"
    )
    reserve_gib: Annotated[float, Field(ge=0, strict=True)] | None = Field(
        default=None, description="and what it leaves free, whichever is more"
    )
    tf32: Flag | None = Field(default=None, description="tf32 in the fp32 parts of the 16-bit steps")
    cudnn_benchmark: Flag | None = Field(default=None, description="cuDNN tries its algorithms out")


class Feeding(Table):
    """Steps of generation on the GPU, whose completions are judged by a pool of processes on the CPU."""

    completions: Count | None = Field(default=None, description="of one step: as many rewards to compute")
    processes: Annotated[int, Field(ge=1, le=64, strict=True)] | None = Field(
        default=None, description="of the pool, at most; never more than the node has CPUs for"
    )
    strategy_s: Positive | None = Field(default=None, description="longest run of one strategy")
    strategy_memory_mib: Positive | None = Field(default=None, description="most memory of one strategy")
    overlap: Flag | None = Field(
        default=None, description="generate the next step while the last one's rewards are computed"
    )


class Sharing(Table):
    """The same work by one process, then by several that share the GPU."""

    workers: tuple[Annotated[int, Field(ge=1, le=16, strict=True)], ...] | None = Field(
        default=None, description="numbers of processes to compare, beginning with 1"
    )
    vram_share: Share | None = Field(default=None, description="of the card, all processes together")
