"""The gemm stage's table in a profile, and its figures in SKU files and floors."""

from typing import ClassVar

from pydantic import Field

from rigproof.profiles.kinds.figures import SLOWEST_TFLOPS, FigureKind, peak_of
from rigproof.profiles.tables.levels import EveryLevel
from rigproof.profiles.tables.models import PRECISIONS
from rigproof.profiles.tables.stages import StageSettings


class GemmSettings(StageSettings):
    """Each device's steady rate, precision by precision. It ends when the rates have settled."""

    of_rig: ClassVar[frozenset[str]] = frozenset({"settle_s", "measure_s"})

    settle_s: EveryLevel = Field(description="longest time to reach the steady state, by level")
    measure_s: EveryLevel = Field(description="per precision, by level")


MEANINGS = {
    "fp32": "large products, without tensor cores",
    "tf32": "as above, fp32 operands on tensor cores",
    "fp16": "as above, 32-bit accumulation",
    "bf16": "as above, 32-bit accumulation",
    "fp8": "as above, 32-bit accumulation",
}
FIGURES = {
    precision: FigureKind(
        f"gemm_{precision}_tflops",
        meaning,
        floor=precision in PRECISIONS,  # others are not measured yet
        precision=precision,
        products=True,
        peak=peak_of(precision),
        slowest=SLOWEST_TFLOPS,
        labels={"precision": precision},
    )
    for precision, meaning in MEANINGS.items()
}
