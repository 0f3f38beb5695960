"""One GpuSample, with as few calls as NVML allows: they serialise on the driver's lock.

A sample takes seven calls (field values in one batch, utilization, memory, temperature, two clocks,
clock-event reasons), and one more if the driver has no average-power field. The PCIe link takes two and the
thermal margin one; they are read once a second and kept in between, since a link that trains down under load
stays down for longer than that, and heat stays too. Process lists (4.5 ms) and PCIe throughput (a 20 ms
window) are never queried here.
"""

from typing import Any

from rigproof.records.samples import GpuSample
from rigproof.telemetry.nvml.library import Gpu
from rigproof.telemetry.nvml.protocol import MEMORY_INFO_V2, TEMPERATURE_SENSOR_GPU, Clock, Field

HELD_S = 1.0
REASONS = "nvmlDeviceGetCurrentClocksEventReasons"
OLDER_REASONS = "nvmlDeviceGetCurrentClocksThrottleReasons"
MIB = 2**20
BATCH = (  # in the order in which `read_sample` takes them apart
    Field.MEMORY_TEMPERATURE,
    Field.TOTAL_ENERGY,
    Field.PCIE_REPLAYS,
    Field.POWER_AVERAGE,
    Field.POWER_INSTANT,
    Field.POWER_LIMIT,
)


def read_sample(gpu: Gpu, lateness_s: float) -> GpuSample:
    """Everything that is sampled on the grid. `gpu.t_s` is the sample's time.

    Raises:
        GpuLost: the GPU no longer answers.
    """
    memory_c, energy_mj, replays, average_mw, power_mw, limit_mw = gpu.fields(BATCH).values()
    if not average_mw:  # drivers before 525: this is an average over 1 s on Ampere and later
        average_mw = gpu.number("nvmlDeviceGetPowerUsage")
    generation, width, margin_c = _held(gpu)
    return GpuSample(
        t_s=gpu.t_s,
        subject=gpu.subject,
        utilization_percent=_utilization_percent(gpu),
        memory_used_mib=memory_mib(gpu, "used"),
        core_temperature_c=positive(gpu.number("nvmlDeviceGetTemperature", TEMPERATURE_SENSOR_GPU)),
        memory_temperature_c=positive(memory_c),
        power_w=positive(power_mw, 1e-3),
        power_average_w=positive(average_mw, 1e-3),
        energy_j=None if energy_mj is None else energy_mj * 1e-3,
        power_limit_w=positive(limit_mw, 1e-3),
        sm_clock_mhz=gpu.number("nvmlDeviceGetClockInfo", Clock.SM),
        memory_clock_mhz=gpu.number("nvmlDeviceGetClockInfo", Clock.MEMORY),
        clock_event_reasons=gpu.number(REASONS, older=OLDER_REASONS),
        pcie_generation=generation,
        pcie_width=width,
        pcie_replays=None if replays is None else int(replays),
        lateness_s=lateness_s,
        thermal_margin_c=margin_c,
    )


def positive(value: float | None, scale: float = 1.0) -> float | None:
    """`value * scale`, or None if ≤ 0, which a running GPU cannot have: a missing sensor can read 0."""
    return None if value is None or value <= 0 else value * scale


def memory_mib(gpu: Gpu, member: str) -> float | None:
    """`used`, `free` or `total` VRAM. The v2 figure leaves the driver's own reserve out of `used`.

    Drivers before 510 only have the first version, whose `used` includes that reserve.
    """
    memory: Any = gpu.ask("nvmlDeviceGetMemoryInfo", MEMORY_INFO_V2)
    if memory is None:
        memory = gpu.ask("nvmlDeviceGetMemoryInfo")
    return None if memory is None else getattr(memory, member) / MIB


def _utilization_percent(gpu: Gpu) -> float | None:
    rates: Any = gpu.ask("nvmlDeviceGetUtilizationRates")
    return None if rates is None or rates.gpu > 100 else float(rates.gpu)


def _held(gpu: Gpu) -> tuple[int | None, int | None, int | None]:
    """PCIe generation and width, and the thermal margin, °C."""
    known = gpu.known
    if gpu.t_s - known.held_since_s >= HELD_S:
        generation = gpu.number("nvmlDeviceGetCurrPcieLinkGeneration") or None
        width = gpu.number("nvmlDeviceGetCurrPcieLinkWidth") or None
        known.held = (generation, width, gpu.number("nvmlDeviceGetMarginTemperature"))
        known.held_since_s = gpu.t_s
    return known.held
