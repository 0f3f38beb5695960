"""The sustained stage's table in a profile, and its figure in SKU files and floors."""

from typing import ClassVar

from pydantic import Field

from rigproof.profiles.kinds.figures import SLOWEST_TFLOPS, FigureKind, peak_16bit
from rigproof.profiles.tables.base import Positive, Share
from rigproof.profiles.tables.levels import EveryLevel
from rigproof.profiles.tables.stages import TimedSettings


class SustainedSettings(TimedSettings):
    """All workers of all GPUs fill their memory and multiply matrices without a break."""

    of_rig: ClassVar[frozenset[str]] = TimedSettings.of_rig | {"settle_s", "combined_floor_tflops"}

    settle_s: EveryLevel = Field(
        description="Longest warm-up, in s, by level; it ends once the rate is steady, or after a third of "
        "the stage."
    )
    stability_drop_share: Share = Field(
        description="Smallest rate in the last quarter of the stage, as a share of the rate in the first "
        "quarter."
    )
    best_window_share: Share | None = Field(
        default=None,
        description="Smallest rate of any 5 s window, as a share of the median of the best quarter of the "
        "windows, or of the same products alone, whichever is higher.",
    )
    combined_floor_tflops: Positive | None = Field(
        default=None,
        description="Smallest sum of the sustained rates of all GPUs, in TFLOP/s. Left out: the sum is not "
        "judged.",
    )


FIGURE = FigureKind(
    "sustained_tflops",
    "16-bit matrix products with the memory filled, all workers of the GPU together",
    peak=peak_16bit,
    conditions=("precision",),
    stand_in="without a filled memory",
    slowest=SLOWEST_TFLOPS,
)
