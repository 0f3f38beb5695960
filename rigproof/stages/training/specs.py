"""A worker's task in the training stage."""

from dataclasses import dataclass

from rigproof.devices.context import WorkerContext
from rigproof.devices.device import Device
from rigproof.devices.specs import Spec
from rigproof.profiles.planning.plan import NO_POLICY, MemoryPlan, WorkerPlan
from rigproof.profiles.planning.planning import MIB_PER_GIB
from rigproof.stages.slice import StageWork
from rigproof.stages.training.settings import TrainingSettings


@dataclass(frozen=True, slots=True)
class TrainingSpec(Spec):
    """Train a small transformer, sized from `vram_mib`, for `duration_s`: precisions, batch search, sweep.

    `batch` is the batch size at which the precisions are compared; `batches` those of the sweep. The search
    uses at most `target_share` of the device's memory and leaves `reserve_mib` of it free.
    """

    vram_mib: float
    duration_s: float
    round_s: float
    sequence: int
    model_share: float
    batch: int
    batches: tuple[int, ...]
    search: bool
    target_share: float
    reserve_mib: float
    tf32: bool
    cudnn_benchmark: bool
    memory: MemoryPlan = NO_POLICY

    def run(self, device: Device, context: WorkerContext) -> None:
        """Train."""
        from rigproof.stages.training.workload import run_training  # noqa: PLC0415 - it needs torch

        run_training(self, device, context)


def specs(work: StageWork) -> dict[str, Spec]:
    """One worker of each device trains, with the memory of all the device's workers."""
    loaded, plan, stage = work.loaded, work.plan, work.stage
    devices = {device.subject: device for device in loaded.devices()}

    def spec(worker: WorkerPlan) -> Spec:
        training = devices[worker.subject].settings(TrainingSettings)
        return TrainingSpec(
            stage=stage.name,
            vram_mib=plan.vram_mib_beside(worker),
            duration_s=stage.measure_s,
            round_s=stage.round_s,
            sequence=training.sequence,
            model_share=training.model_share,
            batch=training.batch,
            batches=training.batches,
            search=training.search,
            target_share=training.target_share,
            reserve_mib=training.reserve_gib * MIB_PER_GIB,
            tf32=training.tf32,
            cudnn_benchmark=training.cudnn_benchmark,
            memory=plan.memory_beside(worker),
        )

    return {worker.worker: spec(worker) for worker in plan.first_workers()}
