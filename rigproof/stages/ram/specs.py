"""A worker's task in the RAM stage."""

import math
from dataclasses import dataclass

from rigproof.devices.context import WorkerContext
from rigproof.devices.device import Device
from rigproof.devices.specs import Spec
from rigproof.stages.ram.settings import RamSettings
from rigproof.stages.slice import StageWork

MIB_PER_GIB = 1024


@dataclass(frozen=True, slots=True)
class RamSpec(Spec):
    """Copy RAM with `threads` threads, then test what is free beside the reserve with patterns."""

    threads: int
    buffer_mib: float
    reserve_mib: float
    reserve_share: float
    least_mib: float
    duration_s: float
    round_s: float

    def run(self, device: Device, context: WorkerContext) -> None:  # noqa: ARG002 - the device rests
        """Do it in a process of its own."""
        from rigproof.stages.ram.workload import run_ram  # noqa: PLC0415 - as in the other stages

        run_ram(self, context)


def specs(work: StageWork) -> dict[str, Spec]:
    """Any worker of a node can measure its RAM, with a thread for each CPU that may be used there."""
    by_worker: dict[str, Spec] = {}
    for worker in work.plan.workers:
        settings = work.loaded.settings_of(worker.node, RamSettings)
        by_worker[worker.worker] = RamSpec(
            stage=work.stage.name,
            threads=max(1, math.floor(work.cpus.get(worker.node, 1.0))),
            buffer_mib=settings.buffer_gib * MIB_PER_GIB,
            reserve_mib=settings.reserve_gib * MIB_PER_GIB,
            reserve_share=settings.reserve_share,
            least_mib=settings.least_gib * MIB_PER_GIB,
            duration_s=work.stage.measure_s,
            round_s=work.stage.round_s,
        )
    return by_worker
