"""Rates of a whole architecture: for cards without a SKU file, and as a ceiling for all cards."""

from pydantic import Field

from rigproof.profiles.tables.base import Positive, Table


class FmaRates(Table):
    """Fused multiply-adds of one SM in one clock, dense, 32-bit accumulation; absent: none, or not known."""

    fp32: Positive | None = Field(default=None, description="without tensor cores")
    tf32: Positive | None = Field(default=None, description="fp32 operands on tensor cores")
    fp16: Positive | None = Field(default=None, description="16-bit operands")
    bf16: Positive | None = Field(default=None, description="as above")


class Architecture(Table):
    """What an SM of one compute capability does in a clock, in its highest and its lowest rate class."""

    compute_capability: str = Field(description='such as "8.6"')
    highest: FmaRates = Field(description="of the fastest cards; nothing is faster")
    lowest: FmaRates = Field(
        default=FmaRates(), description="if slower cards have fewer; absent: as the highest"
    )
    highest_brands: tuple[str, ...] = Field(
        default=(), description="NVML's brands whose cards are all in the highest class"
    )


def tflops(fma: float, sms: int, clock_mhz: float) -> float:
    """The highest rate of that many SMs at that clock, TFLOP/s: a fused multiply-add is two operations."""
    return fma * sms * 2 * clock_mhz / 1e6
