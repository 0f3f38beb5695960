"""What a worker is told to do. Plain data, so that the driver needs no torch to say it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GemmSpec:
    """Measure one device's steady GEMM rate, precision by precision.

    `precisions` empty means every one the device has. Each precision warms up until its rate
    settles, at most `settle_s` for the first and a quarter of that for the others, then measures for
    `measure_s`.
    """

    stage: str
    size: int
    precisions: tuple[str, ...]
    settle_s: float
    measure_s: float
    round_s: float


@dataclass(frozen=True, slots=True)
class SustainedSpec:
    """Fill `vram_mib` with operands and multiply them in 16-bit with 32-bit accumulation for `duration_s`."""

    stage: str
    size: int
    vram_mib: float
    duration_s: float
    settle_s: float
    round_s: float


WorkloadSpec = GemmSpec | SustainedSpec
