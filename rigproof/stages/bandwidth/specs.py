"""A worker's task in the bandwidth stage."""

import math
from dataclasses import dataclass

from rigproof.devices.context import WorkerContext
from rigproof.devices.device import Device
from rigproof.devices.specs import Spec
from rigproof.stages.bandwidth.settings import BandwidthSettings
from rigproof.stages.slice import StageWork

BUFFERS = 4  # three, and room to compare two of them
MIB_PER_GIB = 1024
ALIGNED = 64  # the length of a row is a multiple of it
SMALLEST = 256


@dataclass(frozen=True, slots=True)
class BandwidthSpec(Spec):
    """Write, read, copy and combine buffers of `size` × `size` 32-bit elements, in turn."""

    size: int
    duration_s: float
    round_s: float

    def run(self, device: Device, context: WorkerContext) -> None:
        """Measure each operation."""
        from rigproof.stages.bandwidth.workload import run_bandwidth  # noqa: PLC0415 - it needs torch

        run_bandwidth(self, device, context)


def buffer_size(mib: float) -> int:
    """Side of a square fp32 matrix of that many MiB, a multiple of ALIGNED."""
    side = math.isqrt(int(mib * 2**20) // 4)
    return max(SMALLEST, side // ALIGNED * ALIGNED)


def specs(work: StageWork) -> dict[str, Spec]:
    """One worker of each device measures its memory."""
    plan, stage = work.plan, work.stage
    settings = {device.subject: device.settings(BandwidthSettings) for device in work.loaded.devices()}
    by_worker: dict[str, Spec] = {}
    for worker in plan.first_workers():
        wanted_mib = settings[worker.subject].buffer_gib * MIB_PER_GIB
        size = buffer_size(min(wanted_mib, plan.vram_mib_beside(worker) / BUFFERS))
        by_worker[worker.worker] = BandwidthSpec(stage.name, size, stage.measure_s, stage.round_s)
    return by_worker
