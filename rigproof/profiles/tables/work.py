"""How workers allocate VRAM."""

from typing import Annotated

from pydantic import Field

from rigproof.profiles.tables.base import Flag, GemmSize, Positive, Share, Table

Portion = Annotated[float, Field(gt=0, lt=1, strict=True)]
Count = Annotated[int, Field(ge=1, le=2**16, strict=True)]


class MemoryPolicy(Table):
    """How workers allocate VRAM, and what they do if it does not suffice. Each decision is an event."""

    enabled: Flag = Field(
        description="false: nothing is tried, the first failed allocation ends the worker's task, and of all "
        "keys below only `fraction_share`, `mixed_precision` and `monitor_s` apply",
    )
    expandable_segments: Flag = Field(
        description="PYTORCH_ALLOC_CONF: expandable segments, against fragmentation"
    )
    max_split_size_mib: Annotated[int, Field(gt=20, le=2**20, strict=True)] | None = Field(
        default=None, description="PYTORCH_ALLOC_CONF: larger blocks are not split; absent: torch's default"
    )
    roundup_power2_divisions: Annotated[int, Field(ge=1, le=64, strict=True)] | None = Field(
        default=None, description="PYTORCH_ALLOC_CONF: steps between powers of two; absent: torch's default"
    )
    fraction_share: Share | None = Field(
        default=None,
        description="cap on torch's memory, of the card, all its workers together; absent: none",
    )
    start_share: Share = Field(description="progressive allocation: its first step, of the target")
    step_share: Share = Field(description="and each further step, of the target")
    retry_share: Portion = Field(
        description="the target after each failed step, of the one before: 0.9 is 10 % less"
    )
    last_resort_mib: Positive = Field(description="target once every smaller one has failed")
    mixed_precision: Flag = Field(description="16-bit operands and autocast; false: fp32")
    cleanup_rounds: Count = Field(
        description="rounds between two cleanups (garbage collection, cached blocks freed)"
    )
    batch_step: Count = Field(description="examples by which a training batch shrinks after each failure")
    least_batch: Count = Field(description="the smallest training batch")
    emergency_size: GemmSize = Field(
        description="M = N = K of the tiny operations that continue when nothing else fits"
    )
    size_share: Portion = Field(
        description="matrix size after each failure of a round, of the size before it"
    )
    least_size: GemmSize = Field(description="smallest matrix size")
    cpu_fallback: Flag = Field(
        description="continue on the CPU when even the tiny operations fail; never counts as GPU"
    )
    monitor_s: Positive = Field(description="seconds between two readings of a worker's memory")
