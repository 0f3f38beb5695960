"""The sustained stage's table in a profile, and its figure in SKU files and floors."""

from typing import ClassVar

from pydantic import Field

from rigproof.profiles.kinds.figures import SLOWEST_TFLOPS, FigureKind, peak_16bit
from rigproof.profiles.tables.base import Positive, Share
from rigproof.profiles.tables.levels import EveryLevel
from rigproof.profiles.tables.stages import TimedSettings


class SustainedSettings(TimedSettings):
    """All workers fill their memory and multiply without a break."""

    of_rig: ClassVar[frozenset[str]] = TimedSettings.of_rig | {"settle_s", "combined_floor_tflops"}

    settle_s: EveryLevel = Field(
        description="longest time until the rates are steady, by level; at most a third of the stage"
    )
    stability_drop_share: Share = Field(description="least rate of the last quarter, relative to the first")
    combined_floor_tflops: Positive | None = Field(
        default=None, description="least sum of the rates of all GPUs; absent: none"
    )


FIGURE = FigureKind(
    "sustained_tflops",
    "16-bit products with the memory filled, all workers of the GPU together",
    peak=peak_16bit,
    conditions=("precision",),
    stand_in="without a filled memory",
    slowest=SLOWEST_TFLOPS,
)
