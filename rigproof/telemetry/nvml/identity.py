"""A GPU's identity: what NVML reports once, before any load."""

import os
from enum import IntEnum
from typing import Any

from rigproof.records.identity import GpuIdentity
from rigproof.telemetry.nvml.device import Reading
from rigproof.telemetry.nvml.protocol import (
    EVENT_XID_CRITICAL_ERROR,
    Brand,
    Clock,
    Threshold,
    Virtualization,
)
from rigproof.telemetry.nvml.sampling import MIB, memory_mib, positive


def read_identity(reading: Reading, index: int) -> GpuIdentity | None:
    """The GPU's identity; None if not even its name or memory size can be read.

    Raises:
        GpuLost: the GPU no longer answers.
    """
    name = reading.ask("nvmlDeviceGetName")
    memory_total_mib = _memory_total_mib(reading)
    if name is None or memory_total_mib is None:
        return None
    return GpuIdentity(
        subject=reading.subject,
        device="cuda",
        uuid=reading.device.uuid,
        name=str(name),
        index=index,
        memory_total_mib=memory_total_mib,
        pci_bus_id=_pci_bus_id(reading),
        compute_capability=_compute_capability(reading),
        power_limit_w=positive(reading.number("nvmlDeviceGetEnforcedPowerLimit"), 1e-3),
        power_limit_default_w=positive(reading.number("nvmlDeviceGetPowerManagementDefaultLimit"), 1e-3),
        sm_clock_max_mhz=positive(reading.number("nvmlDeviceGetMaxClockInfo", Clock.SM)),
        memory_clock_max_mhz=positive(reading.number("nvmlDeviceGetMaxClockInfo", Clock.MEMORY)),
        temperature_gpu_max_c=_threshold_c(reading, Threshold.GPU_MAX),
        temperature_memory_max_c=_threshold_c(reading, Threshold.MEMORY_MAX),
        temperature_slowdown_c=_threshold_c(reading, Threshold.SLOWDOWN),
        temperature_shutdown_c=_threshold_c(reading, Threshold.SHUTDOWN),
        pcie_generation_max=reading.number("nvmlDeviceGetMaxPcieLinkGeneration") or None,
        pcie_width_max=reading.number("nvmlDeviceGetMaxPcieLinkWidth") or None,
        ecc_enabled=_ecc_enabled(reading),
        display_active=_flag(reading.number("nvmlDeviceGetDisplayActive")),
        xid_supported=xid_supported(reading),
        vbios_version=reading.ask("nvmlDeviceGetVbiosVersion"),
        brand=_named(Brand, reading.number("nvmlDeviceGetBrand")),
        virtualization=_named(Virtualization, reading.number("nvmlDeviceGetVirtualizationMode")),
    )


def xid_supported(reading: Reading) -> bool:
    """Whether this GPU reports Xids as NVML events."""
    types = reading.number("nvmlDeviceGetSupportedEventTypes")
    return types is not None and bool(types & EVENT_XID_CRITICAL_ERROR)


def _memory_total_mib(reading: Reading) -> float | None:
    total_mib = positive(memory_mib(reading, "total"))
    if total_mib is None and reading.unsupported("nvmlDeviceGetMemoryInfo"):
        # A GPU without memory of its own (integrated ones, GB10) uses the host's.
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / MIB
    return total_mib


def _threshold_c(reading: Reading, threshold: Threshold) -> float | None:
    """A threshold ≤ 0 is not a threshold; it is signed, though NVML's type is not."""
    value = reading.number("nvmlDeviceGetTemperatureThreshold", threshold)
    return None if value is None or value >= 2**31 else positive(value)


def _pci_bus_id(reading: Reading) -> str | None:
    info: Any = reading.ask("nvmlDeviceGetPciInfo")
    return None if info is None else str(info.busId)


def _compute_capability(reading: Reading) -> tuple[int, int] | None:
    answer: Any = reading.ask("nvmlDeviceGetCudaComputeCapability")
    return None if answer is None else (int(answer[0]), int(answer[1]))


def _ecc_enabled(reading: Reading) -> bool | None:
    modes: Any = reading.ask("nvmlDeviceGetEccMode")
    return None if modes is None else bool(modes[0])


def _named(names: type[IntEnum], value: int | None) -> str | None:
    """A number's name; None for an unknown number."""
    return next((one.name.lower() for one in names if one == value), None)


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)
