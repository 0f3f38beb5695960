"""A worker's task in the disk stage."""

from dataclasses import dataclass

from rigproof.devices.context import WorkerContext
from rigproof.devices.device import Device
from rigproof.devices.specs import Spec
from rigproof.stages.disk.settings import DiskSettings
from rigproof.stages.slice import StageWork

MIB_PER_GIB = 1024


@dataclass(frozen=True, slots=True)
class DiskSpec(Spec):
    """Write a file of at most `most_mib` in the folder `path`, and read it back."""

    path: str
    most_mib: float
    reserve_mib: float
    duration_s: float

    def run(self, device: Device, context: WorkerContext) -> None:  # noqa: ARG002 - the device rests
        """Do it in a process of its own."""
        from rigproof.stages.disk.workload import run_disk  # noqa: PLC0415 - as in the other stages

        run_disk(self, context)


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
