"""Rates of a whole architecture: for cards without a SKU file, and as a ceiling for all cards."""

from pydantic import Field

from rigproof.profiles.tables.base import Positive, Table


class FmaRates(Table):
    """Fused multiply-adds of one SM in one clock, accumulated in 32 bits. Left out: none, or not known."""

    fp32: Positive | None = Field(default=None, description="Without tensor cores.")
    tf32: Positive | None = Field(default=None, description="fp32 operands on tensor cores.")
    fp16: Positive | None = Field(default=None, description="fp16 operands.")
    bf16: Positive | None = Field(default=None, description="bf16 operands.")
    fp8: Positive | None = Field(default=None, description="fp8 operands.")


class Architecture(Table):
    """What an SM of one compute capability does in a clock: floors and ceilings of rates follow from it."""

    compute_capability: str = Field(description='CUDA compute capability, such as "8.6".')
    highest: FmaRates = Field(
        description="Rates of the fastest cards of this architecture: the most that any of them can do."
    )
    lowest: FmaRates = Field(
        default=FmaRates(),
        description="Rates of its slower cards, where they differ. A precision that is left out is as in "
        "highest.",
    )
    highest_brands: tuple[str, ...] = Field(
        default=(),
        description="Brands, as NVML reports them, whose cards all have the highest rates. Left out: none.",
    )


def tflops(fma: float, sms: int, clock_mhz: float) -> float:
    """The highest rate of that many SMs at that clock, TFLOP/s: a fused multiply-add is two operations."""
    return fma * sms * 2 * clock_mhz / 1e6
