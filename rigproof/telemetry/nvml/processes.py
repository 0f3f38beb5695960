"""A GPU's processes now: the memory of each, and the share of the SMs that it used recently."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rigproof.telemetry.nvml.library import Gpu
from rigproof.telemetry.nvml.protocol import NOT_AVAILABLE
from rigproof.telemetry.nvml.sampling import MIB

COMPUTE, GRAPHICS = "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"
USE = "nvmlDeviceGetProcessUtilization"
RECENT_S = 1.0


@dataclass(frozen=True, slots=True)
class Listed:
    """A process as the driver lists it."""

    pid: int
    used_mib: float | None
    graphics: bool  # it is in the list of graphics processes, perhaps also in the compute list


def read_processes(gpu: Gpu) -> tuple[Listed, ...] | None:
    """Every process with a context, by pid; None if the driver does not list compute processes.

    The lists take some 5 ms: not for a timed section.

    Raises:
        GpuLost: the GPU no longer answers.
    """
    computing: Any = gpu.ask(COMPUTE)
    if computing is None:
        return None
    drawing: Any = gpu.ask(GRAPHICS) or ()
    found = {
        int(one.pid): Listed(int(one.pid), held_mib(one), graphics)
        for graphics, processes in ((False, computing), (True, drawing))
        for one in processes
    }
    return tuple(found[pid] for pid in sorted(found))


def read_sm_use(gpu: Gpu) -> Mapping[int, float] | None:
    """Percent of the SMs' time by pid, in the last second; processes not listed used nothing.

    None if the driver does not report it (before Maxwell, in a vGPU, with MIG). Its samples are stamped in
    microseconds since the epoch.

    Raises:
        GpuLost: the GPU no longer answers.
    """
    since_us = int((time.time() - RECENT_S) * 1e6)
    samples = gpu.samples(USE, since_us)
    if samples is None:
        return None
    shares: dict[int, list[int]] = {}
    for one in samples:
        if int(one.smUtil) not in NOT_AVAILABLE:
            shares.setdefault(int(one.pid), []).append(min(100, int(one.smUtil)))
    return {pid: sum(own) / len(own) for pid, own in shares.items()}


def held_mib(process: Any) -> float | None:
    """VRAM that a listed process holds; None if the driver does not report it."""
    held = process.usedGpuMemory
    return None if held is None or held in NOT_AVAILABLE else float(held / MIB)
