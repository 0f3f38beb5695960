"""A GPU's identity: what NVML reports once, before any load."""

import os
from enum import IntEnum
from typing import Any

from rigproof.records.identity import GpuIdentity
from rigproof.telemetry.nvml.library import Gpu
from rigproof.telemetry.nvml.protocol import (
    EVENT_XID_CRITICAL_ERROR,
    Brand,
    Clock,
    ComputeMode,
    Field,
    Threshold,
    Virtualization,
)
from rigproof.telemetry.nvml.sampling import MIB, memory_mib, positive


def read_identity(gpu: Gpu, index: int) -> GpuIdentity | None:
    """The GPU's identity; None if not even its name or memory size can be read.

    Raises:
        GpuLost: the GPU no longer answers.
    """
    name = gpu.ask("nvmlDeviceGetName")
    memory_total_mib = _memory_total_mib(gpu)
    if name is None or memory_total_mib is None:
        return None
    ecc_enabled, ecc_pending = _modes(gpu.ask("nvmlDeviceGetEccMode"))
    mig_enabled, mig_pending = _modes(gpu.ask("nvmlDeviceGetMigMode"))
    return GpuIdentity(
        subject=gpu.subject,
        device="cuda",
        uuid=gpu.uuid,
        name=str(name),
        index=index,
        memory_total_mib=memory_total_mib,
        pci_bus_id=_pci_bus_id(gpu),
        compute_capability=_compute_capability(gpu),
        power_limit_w=positive(gpu.number("nvmlDeviceGetEnforcedPowerLimit"), 1e-3),
        power_limit_default_w=positive(gpu.number("nvmlDeviceGetPowerManagementDefaultLimit"), 1e-3),
        sm_clock_max_mhz=positive(gpu.number("nvmlDeviceGetMaxClockInfo", Clock.SM)),
        memory_clock_max_mhz=positive(gpu.number("nvmlDeviceGetMaxClockInfo", Clock.MEMORY)),
        temperature_gpu_max_c=_threshold_c(gpu, Threshold.GPU_MAX),
        temperature_memory_max_c=_threshold_c(gpu, Threshold.MEMORY_MAX),
        temperature_slowdown_c=_threshold_c(gpu, Threshold.SLOWDOWN),
        temperature_shutdown_c=_threshold_c(gpu, Threshold.SHUTDOWN),
        slowdown_margin_c=_slowdown_margin_c(gpu),
        pcie_generation_max=gpu.number("nvmlDeviceGetMaxPcieLinkGeneration") or None,
        pcie_width_max=gpu.number("nvmlDeviceGetMaxPcieLinkWidth") or None,
        ecc_enabled=ecc_enabled,
        ecc_pending=ecc_pending,
        display_active=_flag(gpu.number("nvmlDeviceGetDisplayActive")),
        xid_supported=xid_supported(gpu),
        vbios_version=gpu.ask("nvmlDeviceGetVbiosVersion"),
        brand=_named(Brand, gpu.number("nvmlDeviceGetBrand")),
        compute_mode=_named(ComputeMode, gpu.number("nvmlDeviceGetComputeMode")),
        persistence=_flag(gpu.number("nvmlDeviceGetPersistenceMode")),
        mig_enabled=mig_enabled,
        mig_pending=mig_pending,
        virtualization=_named(Virtualization, gpu.number("nvmlDeviceGetVirtualizationMode")),
    )


def xid_supported(gpu: Gpu) -> bool:
    """Whether this GPU reports Xids as NVML events."""
    types = gpu.number("nvmlDeviceGetSupportedEventTypes")
    return types is not None and bool(types & EVENT_XID_CRITICAL_ERROR)


def _memory_total_mib(gpu: Gpu) -> float | None:
    total_mib = positive(memory_mib(gpu, "total"))
    if total_mib is None and gpu.unsupported("nvmlDeviceGetMemoryInfo"):
        # A GPU without memory of its own (integrated ones, GB10) uses the host's.
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / MIB
    return total_mib


def _threshold_c(gpu: Gpu, threshold: Threshold) -> float | None:
    """A threshold ≤ 0 is not a threshold; it is signed, though NVML's type is not."""
    value = gpu.number("nvmlDeviceGetTemperatureThreshold", threshold)
    return None if value is None or value >= 2**31 else positive(value)


def _slowdown_margin_c(gpu: Gpu) -> float | None:
    """The margin, queried by itself, since older drivers lack the field; signed, whatever they state."""
    value = gpu.fields([Field.SLOWDOWN_MARGIN])[Field.SLOWDOWN_MARGIN]
    if value is None:
        return None
    return float(value - 2**32 if value >= 2**31 else value)


def _pci_bus_id(gpu: Gpu) -> str | None:
    info: Any = gpu.ask("nvmlDeviceGetPciInfo")
    return None if info is None else str(info.busId)


def _compute_capability(gpu: Gpu) -> tuple[int, int] | None:
    answer: Any = gpu.ask("nvmlDeviceGetCudaComputeCapability")
    return None if answer is None else (int(answer[0]), int(answer[1]))


def _modes(answer: Any) -> tuple[bool | None, bool | None]:
    """A mode now, and the one after the next restart or reset; None if it was not reported."""
    return (None, None) if answer is None else (bool(answer[0]), bool(answer[1]))


def _named(names: type[IntEnum], value: int | None) -> str | None:
    """The name of a number; None for an unknown number."""
    return next((one.name.lower() for one in names if one == value), None)


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)
