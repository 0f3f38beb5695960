"""NVML's functions about one GPU's memory: its use, its errors, and who holds it."""

from typing import Any

from rigproof.simulation.nvml.abi import MIB, ON_DEVICE, answers, target, write
from rigproof.simulation.nvml.model import SimulatedDriver, SimulatedGpu
from rigproof.telemetry.nvml.protocol import (
    ECC_UNCORRECTED,
    ECC_VOLATILE,
    RETIRED_DOUBLE_BIT,
    SUCCESS,
    Code,
)


@answers(ON_DEVICE, "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2")
def _memory(_driver: SimulatedDriver, gpu: SimulatedGpu, out: Any) -> int:
    if gpu.memory_total_mib is None or gpu.memory_used_mib is None:
        return Code.NOT_SUPPORTED
    memory = target(out)
    taken_mib = gpu.memory_used_mib + gpu.memory_reserved_mib
    memory.total = int(gpu.memory_total_mib * MIB)
    memory.free = int((gpu.memory_total_mib - taken_mib) * MIB)
    if hasattr(memory, "reserved"):  # version 2 keeps the driver's reserve apart
        memory.reserved = int(gpu.memory_reserved_mib * MIB)
        memory.used = int(gpu.memory_used_mib * MIB)
    else:
        memory.used = int(taken_mib * MIB)
    return SUCCESS


@answers(ON_DEVICE, "nvmlDeviceGetTotalEccErrors")
def _ecc_errors(_driver: SimulatedDriver, gpu: SimulatedGpu, kind: Any, counter: Any, out: Any) -> int:
    if counter.value != ECC_VOLATILE:
        return Code.NOT_SUPPORTED
    return write(out, gpu.ecc_uncorrected if kind.value == ECC_UNCORRECTED else gpu.ecc_corrected)


@answers(ON_DEVICE, "nvmlDeviceGetRemappedRows")
def _remapped_rows(
    _driver: SimulatedDriver,
    gpu: SimulatedGpu,
    correctable: Any,
    uncorrectable: Any,
    pending: Any,
    failed: Any,
) -> int:
    write(uncorrectable, gpu.remapped_uncorrectable)
    write(pending, gpu.remap_pending)
    write(failed, gpu.remap_failed)
    return write(correctable, gpu.remapped_correctable)


@answers(ON_DEVICE, "nvmlDeviceGetRowRemapperHistogram")
def _remap_spares(_driver: SimulatedDriver, gpu: SimulatedGpu, out: Any) -> int:
    if gpu.remap_spares is None:
        return Code.NOT_SUPPORTED
    found = target(out)
    found.max, found.high, found.partial, found.low, found.none = gpu.remap_spares
    return SUCCESS


@answers(ON_DEVICE, "nvmlDeviceGetSramEccErrorStatus")
def _sram(_driver: SimulatedDriver, gpu: SimulatedGpu, out: Any) -> int:
    if gpu.sram_threshold_exceeded is None:
        return Code.NOT_SUPPORTED
    target(out).bThresholdExceeded = gpu.sram_threshold_exceeded
    return SUCCESS


@answers(ON_DEVICE, "nvmlDeviceGetRepairStatus")
def _repairs(_driver: SimulatedDriver, gpu: SimulatedGpu, out: Any) -> int:
    if gpu.channel_repair_pending is None:
        return Code.NOT_SUPPORTED
    status = target(out)
    status.bChannelRepairPending, status.bTpcRepairPending = (
        gpu.channel_repair_pending,
        gpu.tpc_repair_pending,
    )
    return SUCCESS


@answers(ON_DEVICE, "nvmlDeviceValidateInforom")
def _inforom(_driver: SimulatedDriver, gpu: SimulatedGpu) -> int:
    if gpu.inforom_valid is None:
        return Code.NOT_SUPPORTED
    return SUCCESS if gpu.inforom_valid else Code.CORRUPTED_INFOROM


@answers(ON_DEVICE, "nvmlDeviceGetRetiredPages")
def _retired_pages(_driver: SimulatedDriver, gpu: SimulatedGpu, cause: Any, count: Any, pages: Any) -> int:
    double_bit = cause.value == RETIRED_DOUBLE_BIT
    retired = gpu.retired_pages_double_bit if double_bit else gpu.retired_pages_single_bit
    if retired is None:
        return Code.NOT_SUPPORTED
    room = 0 if pages is None else target(count).value
    write(count, retired)
    if retired > room:
        return Code.INSUFFICIENT_SIZE
    for number in range(retired):
        pages[number] = 0x1000 * (number + 1)
    return SUCCESS


@answers(ON_DEVICE, "nvmlDeviceGetComputeRunningProcesses_v3")
def _compute_processes(_driver: SimulatedDriver, gpu: SimulatedGpu, count: Any, out: Any) -> int:
    return _processes(gpu, count, out, graphics=False)


@answers(ON_DEVICE, "nvmlDeviceGetGraphicsRunningProcesses_v3")
def _graphics_processes(_driver: SimulatedDriver, gpu: SimulatedGpu, count: Any, out: Any) -> int:
    return _processes(gpu, count, out, graphics=True)


def _processes(gpu: SimulatedGpu, count: Any, out: Any, *, graphics: bool) -> int:
    if gpu.processes is None:
        return Code.NO_PERMISSION
    found = [process for process in gpu.processes if process.graphics is graphics]
    room = 0 if out is None else target(count).value
    write(count, len(found))
    if len(found) > room:
        return Code.INSUFFICIENT_SIZE
    for entry, process in zip(out or (), found, strict=False):
        entry.pid = process.pid
        not_available = process.used_mib is None
        entry.usedGpuMemory = 2**64 - 1 if not_available else int((process.used_mib or 0) * MIB)
    return SUCCESS


@answers(ON_DEVICE, "nvmlDeviceGetProcessUtilization")
def _process_use(_driver: SimulatedDriver, gpu: SimulatedGpu, out: Any, count: Any, since: Any) -> int:
    """A sample of every process that used the SMs; NOT_FOUND if there is none, as with the real driver."""
    if gpu.processes is None or not gpu.process_use_supported:
        return Code.NOT_SUPPORTED
    found = [process for process in gpu.processes if process.sm_percent]
    if not found:
        return Code.NOT_FOUND
    room = 0 if out is None else target(count).value
    write(count, len(found))
    if len(found) > room:
        return Code.INSUFFICIENT_SIZE
    for entry, process in zip(out, found, strict=False):
        entry.pid, entry.smUtil, entry.timeStamp = process.pid, process.sm_percent, since.value + 1
    return SUCCESS
