"""A worker's task in the sharing stage."""

from dataclasses import dataclass

from rigproof.devices.context import WorkerContext
from rigproof.devices.device import Device
from rigproof.devices.specs import Spec
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.profiles.planning.planning import MIB_PER_GIB, device_plan
from rigproof.stages.sharing.settings import SharingSettings
from rigproof.stages.slice import StageWork


@dataclass(frozen=True, slots=True)
class SharingSpec(Spec):
    """Do the same products with each number of processes in `workers`, one after the other, on one device.

    `vram_mib` and `cpus` are for all processes together.
    """

    size: int
    vram_mib: float
    duration_s: float
    round_s: float
    workers: tuple[int, ...]
    cpus: float

    def run(self, device: Device, context: WorkerContext) -> None:
        """Share the device."""
        from rigproof.stages.sharing.workload import run_sharing  # noqa: PLC0415 - it needs torch

        run_sharing(self, device, context)


def specs(work: StageWork) -> dict[str, Spec]:
    """One worker of each device starts the processes that share it."""
    loaded, plan, stage = work.loaded, work.plan, work.stage
    devices = {device.subject: device for device in loaded.devices()}

    def spec(worker: WorkerPlan) -> Spec:
        device = devices[worker.subject]
        sharing, memory_gib = device.settings(SharingSettings), device_plan(loaded, device).memory_gib
        room_mib = plan.vram_mib_beside(worker)
        if worker.device == "cuda" and memory_gib is not None:
            room_mib = sharing.vram_share * memory_gib * MIB_PER_GIB
        return SharingSpec(
            stage=stage.name,
            size=worker.gemm_size,
            vram_mib=room_mib,
            duration_s=stage.measure_s,
            round_s=stage.round_s,
            workers=sharing.workers,
            cpus=sum(other.cpus for other in plan.workers_of(worker.subject)),
        )

    return {worker.worker: spec(worker) for worker in plan.first_workers()}
