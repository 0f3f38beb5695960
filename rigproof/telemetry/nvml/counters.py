"""Readings before and after a load: error counters, and VRAM that other processes hold."""

from typing import Any, Literal

from rigproof.records.measurements import ForeignMemory, GpuCounters
from rigproof.telemetry.nvml.library import Gpu
from rigproof.telemetry.nvml.links import read_fabric, read_nvlinks
from rigproof.telemetry.nvml.processes import COMPUTE, GRAPHICS, held_mib
from rigproof.telemetry.nvml.protocol import (
    ECC_CORRECTED,
    ECC_UNCORRECTED,
    ECC_VOLATILE,
    MEMORY_INFO_V2,
    RETIRED_DOUBLE_BIT,
    RETIRED_MULTIPLE_SINGLE_BIT,
    Code,
    Field,
)
from rigproof.telemetry.nvml.sampling import MIB

# Two groups, since a driver may know only the first.
SLOWED = (
    {"power_capped_s": Field.POWER_CAPPED, "sync_boost_s": Field.SYNC_BOOST},
    {"sw_thermal_s": Field.SW_THERMAL, "hw_thermal_s": Field.HW_THERMAL, "power_brake_s": Field.POWER_BRAKE},
)
PROCESS_LISTS = (COMPUTE, GRAPHICS)


def read_counters(gpu: Gpu, moment: Literal["before", "after"]) -> GpuCounters:
    """The GPU's error counters, fan, NVLinks and fabric, and the recovery action that the driver requests.

    ECC errors count since the driver was loaded; remapped rows and retired pages stay for the card's life.

    Raises:
        GpuLost: the GPU no longer answers.
    """
    rows: Any = gpu.ask("nvmlDeviceGetRemappedRows")
    correctable, uncorrectable, pending, failed = (None,) * 4 if rows is None else rows
    sram: Any = gpu.filled("nvmlDeviceGetSramEccErrorStatus", "c_nvmlEccSramErrorStatus_v1_t")
    repairs: Any = gpu.ask("nvmlDeviceGetRepairStatus")
    channel, tpc = (None, None) if repairs is None else map(bool, repairs)
    return GpuCounters(
        t_s=gpu.t_s,
        subject=gpu.subject,
        moment=moment,
        ecc_uncorrected=gpu.number("nvmlDeviceGetTotalEccErrors", ECC_UNCORRECTED, ECC_VOLATILE),
        ecc_corrected=gpu.number("nvmlDeviceGetTotalEccErrors", ECC_CORRECTED, ECC_VOLATILE),
        remapped_uncorrectable=uncorrectable,
        remapped_correctable=correctable,
        remap_pending=None if pending is None else bool(pending),
        remap_failed=None if failed is None else bool(failed),
        retired_pages=_retired_pages(gpu),
        pcie_replays=gpu.number("nvmlDeviceGetPcieReplayCounter"),
        fan_percent=gpu.number("nvmlDeviceGetFanSpeed"),
        recovery_action=_recovery_action(gpu),
        **_slowed_s(gpu),
        remap_spares=_remap_spares(gpu),
        sram_threshold_exceeded=None if sram is None else bool(sram.bThresholdExceeded),
        channel_repair_pending=channel,
        tpc_repair_pending=tpc,
        inforom_valid=gpu.valid("nvmlDeviceValidateInforom", Code.CORRUPTED_INFOROM),
        **read_nvlinks(gpu),
        **read_fabric(gpu),
    )


def _recovery_action(gpu: Gpu) -> int | None:
    """The driver's recovery action for the GPU; queried by itself, since older drivers lack the field."""
    value = gpu.fields([Field.RECOVERY_ACTION])[Field.RECOVERY_ACTION]
    return None if value is None else int(value)


def _slowed_s(gpu: Gpu) -> dict[str, Any]:
    """How long the clock was lowered for each reason, by the names of GpuCounters."""
    found: dict[str, Any] = {}
    for group in SLOWED:
        values = gpu.fields(list(group.values()))
        for name, field in group.items():
            value = values[field]
            found[name] = None if value is None else value * 1e-9
    return found


def _remap_spares(gpu: Gpu) -> tuple[int, ...] | None:
    """How many memory banks have all, most, some, few and no spare rows left to remap."""
    found: Any = gpu.ask("nvmlDeviceGetRowRemapperHistogram")
    if found is None:
        return None
    return (found.max, found.high, found.partial, found.low, found.none)


def _retired_pages(gpu: Gpu) -> int | None:
    """Pages retired for both causes together; None if one of the two counts cannot be read."""
    counts = []
    for cause in (RETIRED_MULTIPLE_SINGLE_BIT, RETIRED_DOUBLE_BIT):
        pages: Any = gpu.ask("nvmlDeviceGetRetiredPages", cause)
        if pages is None:
            return None
        counts.append(len(pages))
    return sum(counts)


def read_foreign_memory(gpu: Gpu, own_pids: frozenset[int]) -> ForeignMemory:
    """VRAM in use beside that of the processes of `own_pids`, and the pids of the other holders.

    Only the v2 memory figure is used: the older one counts the driver's own reserve as used. The
    process list takes some 5 ms: not for a timed section. Process ids are those of NVML's view, which
    in a container with its own pid namespace may not be ours.

    Raises:
        GpuLost: the GPU no longer answers.
    """
    memory: Any = gpu.ask("nvmlDeviceGetMemoryInfo", MEMORY_INFO_V2)
    used_mib, reserved_mib = (None, None) if memory is None else (memory.used / MIB, memory.reserved / MIB)
    lists = [gpu.ask(query) for query in PROCESS_LISTS]
    if all(processes is None for processes in lists):
        return ForeignMemory(gpu.t_s, gpu.subject, used_mib, None, reserved_mib)
    # A process can be in both lists, with the same memory.
    held = {
        int(process.pid): held_mib(process) or 0.0
        for processes in lists
        if processes
        for process in processes
    }
    own_mib = sum(mib for pid, mib in held.items() if pid in own_pids)
    return ForeignMemory(
        gpu.t_s,
        gpu.subject,
        None if used_mib is None else max(0.0, used_mib - own_mib),
        pids=tuple(sorted(held.keys() - own_pids)),
        reserved_mib=reserved_mib,
    )
