"""A worker's task in the RAM stage."""

import math
import signal
from dataclasses import dataclass

from rigproof.devices.context import WorkerContext
from rigproof.devices.device import Device
from rigproof.devices.own_process import run_apart
from rigproof.devices.specs import Spec
from rigproof.stages.ram.records import RamTest
from rigproof.stages.ram.settings import RamSettings
from rigproof.stages.slice import StageWork

MIB_PER_GIB = 1024
WORKLOAD = "rigproof.stages.ram.workload"
STALL_S = 15.0  # without a message


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
        """Do it in a process of its own. Emits rounds, events, and a RamTest.

        Raises RuntimeError if the process dies, hangs or fails. It is not left running.
        """
        run_apart(
            WORKLOAD,
            self,
            context,
            records=(RamTest,),
            test="memory test",
            silent="the memory test was silent",
            stall_s=STALL_S,
            endings={-signal.SIGKILL: "; the kernel killed it since memory ran out, or somebody did"},
        )


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
