"""The gemm stage's table in a profile, and its figures in SKU files and floors."""

from typing import ClassVar

from pydantic import Field

from rigproof.profiles.kinds.figures import SLOWEST_TFLOPS, FigureKind, peak_of
from rigproof.profiles.tables.levels import EveryLevel
from rigproof.profiles.tables.stages import StageSettings


class GemmSettings(StageSettings):
    """The steady rate of matrix products on each device, in one precision after the other."""

    of_rig: ClassVar[frozenset[str]] = frozenset({"settle_s", "measure_s"})

    settle_s: EveryLevel = Field(
        description="Longest warm-up of the first precision, in s, by level; it ends once the rate is "
        "steady. The later precisions get a quarter of it."
    )
    measure_s: EveryLevel = Field(
        description="Time, in s, by level, for which each precision is then measured."
    )


MEANINGS = {
    "fp32": "large matrix products of fp32 operands, without tensor cores",
    "tf32": "large matrix products of fp32 operands on tensor cores",
    "fp16": "large matrix products of fp16 operands, accumulated in 32 bits",
    "bf16": "large matrix products of bf16 operands, accumulated in 32 bits",
    "fp8": "large matrix products of fp8 operands, accumulated in 32 bits",
}
FIGURES = {
    precision: FigureKind(
        f"gemm_{precision}_tflops",
        meaning,
        precision=precision,
        products=True,
        peak=peak_of(precision),
        slowest=SLOWEST_TFLOPS,
        labels={"precision": precision},
    )
    for precision, meaning in MEANINGS.items()
}
