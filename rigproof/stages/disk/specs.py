"""A worker's task in the disk stage."""

from dataclasses import dataclass

from rigproof.devices.context import WorkerContext
from rigproof.devices.device import Device
from rigproof.devices.own_process import run_apart
from rigproof.devices.specs import Spec
from rigproof.stages.disk.records import DiskTest
from rigproof.stages.disk.settings import DiskSettings
from rigproof.stages.slice import StageWork

MIB_PER_GIB = 1024
WORKLOAD = "rigproof.stages.disk.workload"
STALL_S = 25.0  # without a message: a chunk takes as long at 0.7 MB/s


@dataclass(frozen=True, slots=True)
class DiskSpec(Spec):
    """Write a file of at most `most_mib` in the folder `path`, and read it back."""

    path: str
    most_mib: float
    reserve_mib: float
    duration_s: float

    def run(self, device: Device, context: WorkerContext) -> None:  # noqa: ARG002 - the device rests
        """Do it in a process of its own. Emits rounds, events, and a DiskTest.

        Raises RuntimeError if the process dies, hangs or fails. It is not left running, unless the kernel
        holds it.
        """
        run_apart(
            WORKLOAD,
            self,
            context,
            records=(DiskTest,),
            test="disk test",
            silent=f"{self.path}: the disk did not answer",
            stall_s=STALL_S,
        )


def specs(work: StageWork) -> dict[str, Spec]:
    """Any worker of a node can measure its disk."""
    by_worker: dict[str, Spec] = {}
    for worker in work.plan.workers:
        settings = work.loaded.settings_of(worker.node, DiskSettings)
        by_worker[worker.worker] = DiskSpec(
            stage=work.stage.name,
            path=settings.path,
            most_mib=settings.most_gib.at(work.plan.level) * MIB_PER_GIB,
            reserve_mib=settings.reserve_gib * MIB_PER_GIB,
            duration_s=work.stage.measure_s,
        )
    return by_worker
