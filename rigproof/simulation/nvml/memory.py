"""NVML's functions about one GPU's memory: its use, its errors, and who holds it."""

from operator import setitem
from typing import Any

from rigproof.simulation.nvml.abi import MIB, answers, target, write, write_list, write_struct
from rigproof.simulation.nvml.model import ON_DEVICE, SimulatedDriver, SimulatedGpu, SimulatedProcess
from rigproof.telemetry.nvml.protocol import ECC_UNCORRECTED, ECC_VOLATILE, RETIRED_DOUBLE_BIT, SUCCESS, Code

NONE = 2**64 - 1  # NVML's "not available"


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
    spares = gpu.remap_spares or (None,) * 5
    return write_struct(out, **dict(zip(("max", "high", "partial", "low", "none"), spares, strict=True)))


@answers(ON_DEVICE, "nvmlDeviceGetSramEccErrorStatus")
def _sram(_driver: SimulatedDriver, gpu: SimulatedGpu, out: Any) -> int:
    return write_struct(out, bThresholdExceeded=gpu.sram_threshold_exceeded)


@answers(ON_DEVICE, "nvmlDeviceGetRepairStatus")
def _repairs(_driver: SimulatedDriver, gpu: SimulatedGpu, out: Any) -> int:
    return write_struct(
        out, bChannelRepairPending=gpu.channel_repair_pending, bTpcRepairPending=gpu.tpc_repair_pending
    )


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
    addresses = [0x1000 * (number + 1) for number in range(retired)]
    return write_list(addresses, count, pages, lambda place, one: setitem(pages, place, one))


@answers(ON_DEVICE, "nvmlDeviceGetComputeRunningProcesses_v3")
def _compute(_driver: SimulatedDriver, gpu: SimulatedGpu, count: Any, out: Any) -> int:
    return _processes(gpu, count, out, graphics=False)


@answers(ON_DEVICE, "nvmlDeviceGetGraphicsRunningProcesses_v3")
def _graphics(_driver: SimulatedDriver, gpu: SimulatedGpu, count: Any, out: Any) -> int:
    return _processes(gpu, count, out, graphics=True)


def _processes(gpu: SimulatedGpu, count: Any, out: Any, *, graphics: bool) -> int:
    if gpu.processes is None:
        return Code.NO_PERMISSION
    found = [process for process in gpu.processes if process.graphics is graphics]

    def put(place: int, process: SimulatedProcess) -> None:
        out[place].pid = process.pid
        out[place].usedGpuMemory = NONE if process.used_mib is None else int(process.used_mib * MIB)

    return write_list(found, count, out, put)


@answers(ON_DEVICE, "nvmlDeviceGetProcessUtilization")
def _process_use(_driver: SimulatedDriver, gpu: SimulatedGpu, out: Any, count: Any, since: Any) -> int:
    """A sample of every process that used the SMs; NOT_FOUND if there is none, as with the real driver."""
    if gpu.processes is None or not gpu.process_use_supported:
        return Code.NOT_SUPPORTED
    found = [process for process in gpu.processes if process.sm_percent]
    if not found:
        return Code.NOT_FOUND

    def put(place: int, process: SimulatedProcess) -> None:
        entry = out[place]
        entry.pid, entry.smUtil, entry.timeStamp = process.pid, process.sm_percent, since.value + 1

    return write_list(found, count, out, put)
