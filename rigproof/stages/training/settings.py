"""The training stage's table in a profile, and its figures in SKU files and floors."""

from typing import Annotated

from pydantic import Field

from rigproof.profiles.kinds.figures import SLOWEST_TFLOPS, FigureKind, peak_of
from rigproof.profiles.tables.base import Flag, Positive, Share
from rigproof.profiles.tables.levels import SomeLevels
from rigproof.profiles.tables.stages import TimedSettings
from rigproof.profiles.tables.work import Count, Portion

OfEight = Annotated[int, Field(ge=8, le=65536, multiple_of=8, strict=True)]


class TrainingSettings(TimedSettings):
    """A small transformer's training step, sized from the device's memory."""

    length_s: SomeLevels = Field(description="by level; 0 or absent: not at that level")
    sequence: OfEight = Field(description="tokens of an example")
    model_share: Portion = Field(
        description="of the worker's memory, for weights, gradients and optimizer: sets the model's width"
    )
    batches: tuple[Count, ...] = Field(
        description="batch sizes of the sweep, examples; those that fit are measured"
    )
    batch: Count = Field(description="batch size at which the precisions are compared")
    search: Flag = Field(description="search for the largest batch that fits with the reserve")
    target_share: Share = Field(description="most of the device's memory that the search uses")
    reserve_gib: Annotated[float, Field(ge=0, strict=True)] = Field(
        description="memory that the search leaves free, if that is more"
    )
    tf32: Flag = Field(description="tf32 in the fp32 parts of the 16-bit steps")
    cudnn_benchmark: Flag = Field(description="let cuDNN choose its algorithms by benchmarking them")
    training_unknown_share: Share | None = Field(
        default=None,
        description="floor of a step on a card without a SKU file, of its own throughput.gemm_fp16; absent: "
        "none",
    )
    training_speedup: Positive | None = Field(
        default=None, description="least speed-up of a step by fp16; absent: a share of the SKU file's"
    )


# A training step in fp16, relative to fp32 without tf32: 9 measured on an H200, 14.8 by its printed peaks.
SPEEDUP_LOWEST, SPEEDUP_HIGHEST = 1.0, 20.0
STEP = FigureKind(
    "training_tflops",
    "a training step in fp16 autocast, by the work that the model counts",
    precision="fp16",
    own_size=True,
    peak=peak_of("fp16"),
    lowest_share=0.10,  # a step also has norms, attention and an optimizer: 0.43 measured on an H200
    slowest=SLOWEST_TFLOPS,
    conditions=("batch",),
    architecture=False,
    larger="no_floor",  # a step of a smaller model or batch is slower on every card
)
SPEEDUP = FigureKind(
    "training_speedup",
    "a training step in fp32 (without tf32) / in fp16 autocast",
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
