"""NVML of a simulated driver whose card is under load and has every sensor."""

from collections.abc import Iterator
from contextlib import contextmanager

from rigproof.simulation.nvml.library import installed
from rigproof.simulation.nvml.model import SimulatedDriver, SimulatedGpu
from rigproof.telemetry.nvml.session import Nvml, open_nvml

SUBJECT = "pc1/gpu0"
UUID = "GPU-11111111-aaaa"
OTHER = "GPU-22222222-bbbb"


def loaded_gpu(**changes: object) -> SimulatedGpu:
    """A data centre card under load: it has every sensor."""
    gpu = SimulatedGpu(
        UUID,
        name="NVIDIA H200",
        memory_total_mib=143771.0,
        memory_used_mib=100000.0,
        utilization_percent=99,
        core_temperature_c=71,
        memory_temperature_c=82,
        power_w=695.125,
        power_average_w=688.5,
        power_usage_w=600.0,
        energy_j=123456.789,
        sm_clock_mhz=1470,
        memory_clock_mhz=3201,
        clock_event_reasons=0x4,
        temperature_memory_max_c=95,
        pcie_generation=5,
        pcie_width=8,
        pcie_replays=3,
        thermal_margin_c=16,
        slowdown_margin_c=-2,
        ecc_enabled=True,
        ecc_corrected=7,
        ecc_uncorrected=1,
        remapped_correctable=2,
        remapped_uncorrectable=4,
        remap_pending=True,
        retired_pages_single_bit=5,
        retired_pages_double_bit=6,
    )
    for name, value in changes.items():
        assert hasattr(gpu, name)
        setattr(gpu, name, value)
    return gpu


@contextmanager
def opened(*gpus: SimulatedGpu) -> Iterator[tuple[SimulatedDriver, Nvml]]:
    with installed(SimulatedDriver(list(gpus))) as driver, open_nvml() as nvml:
        yield driver, nvml
