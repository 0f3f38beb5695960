"""The training stage's table in a profile, and its figures in SKU files and floors."""

from typing import Annotated

from pydantic import Field

from rigproof.profiles.kinds.figures import SLOWEST_TFLOPS, FigureKind, peak_of
from rigproof.profiles.tables.base import Flag, Positive, Share
from rigproof.profiles.tables.stages import OptionalSettings
from rigproof.profiles.tables.work import Count, OfEight, Portion


class TrainingSettings(OptionalSettings):
    """Training steps of a small transformer, whose size follows from the device's memory."""

    sequence: OfEight = Field(description="Length of each example, in tokens.")
    model_share: Portion = Field(
        description="Share of the memory of the GPU's workers that weights, gradients and optimizer take; "
        "the model is as wide as fits."
    )
    batches: tuple[Count, ...] = Field(
        description="Batch sizes, in examples, whose speed is measured at the end. Those that do not fit "
        "are left out."
    )
    batch: Count = Field(
        description="Batch size, in examples, at which the precisions are compared. If it does not fit in "
        "fp32, the largest that does."
    )
    search: Flag = Field(
        description="true: the largest batch that fits is searched for. false: that part is skipped."
    )
    target_share: Share = Field(
        description="Largest share of the card's memory that may be in use while it trains."
    )
    reserve_gib: Annotated[float, Field(ge=0, strict=True)] = Field(
        description="Memory, in GiB, that training leaves free on the card, if that is more than "
        "target_share leaves."
    )
    tf32: Flag = Field(description="true: what 16-bit steps still compute in 32 bits may use tf32.")
    cudnn_benchmark: Flag = Field(description="true: cuDNN tries its algorithms and chooses the fastest.")
    training_unknown_share: Share | None = Field(
        default=None,
        description="For cards without a figure of a training step in a SKU file: its smallest rate, as a "
        "share of the card's own fp16 rate in the gemm stage.",
    )
    precision_share: Share | None = Field(
        default=None,
        description="Smallest rate of a training step in fp32 and in tf32, as a share of what follows from "
        "the card's step in fp16. That step reaches some share of the card's fp16 products in "
        "the gemm stage; the others should reach the same share of the products in their own "
        "precision.",
    )
    training_speedup: Positive | None = Field(
        default=None,
        description="How many times faster than in fp32 a training step must be in fp16. Left out: a share "
        "of the SKU file's figure, if it has one.",
    )


# A training step in fp16, relative to fp32 without tf32: 9 measured on an H200, 14.8 by its printed peaks.
SPEEDUP_LOWEST, SPEEDUP_HIGHEST = 1.0, 20.0
STEP = FigureKind(
    "training_tflops",
    "training steps in fp16 (autocast), by the operations that docs/training.md counts",
    precision="fp16",
    own_size=True,
    peak=peak_of("fp16"),
    lowest_share=0.10,  # a step also has norms, attention and an optimizer: 0.43 measured on an H200
    slowest=SLOWEST_TFLOPS,
    conditions=("batch",),
    architecture=False,
    otherwise="by its own products in fp16",
    larger="no_floor",  # a step of a smaller model or batch is slower on every card
)
SPEEDUP = FigureKind(
    "training_speedup",
    "time of a training step in fp32 (without tf32) / in fp16 (autocast)",
    unit="×",
    floor=False,
    precision="fp16",
    own_size=True,
    bounds=(SPEEDUP_LOWEST, SPEEDUP_HIGHEST),
    conditions=("batch",),
    architecture=False,
    larger="printed",
    scaled=False,
)
