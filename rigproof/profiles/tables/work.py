"""How workers allocate VRAM."""

from typing import Annotated

from pydantic import Field

from rigproof.profiles.tables.base import Flag, GemmSize, Portion, Positive, Share, Table

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
    max_split_size_mib: Annotated[int, Field(gt=20, le=2**20, strict=True)] | None = Field(
        default=None,
        description="Option of torch's allocator: it does not split blocks larger than this, in MiB. Left "
        "out: torch's default.",
    )
    roundup_power2_divisions: Annotated[int, Field(ge=1, le=64, strict=True)] | None = Field(
        default=None,
        description="Option of torch's allocator: it rounds sizes up to this many steps between two powers "
        "of two; itself a power of two. Left out: torch's default.",
    )
    fraction_share: Share | None = Field(
        default=None,
        description="Largest share of the card's memory that torch may take, all workers of the card "
        "together. Left out: no cap.",
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
