"""A worker's task in the sustained stage."""

from dataclasses import dataclass

from rigproof.devices.context import WorkerContext
from rigproof.devices.device import Device
from rigproof.devices.specs import Spec
from rigproof.profiles.planning.plan import NO_POLICY, MemoryPlan, WorkerPlan
from rigproof.stages.slice import StageWork


@dataclass(frozen=True, slots=True)
class SustainedSpec(Spec):
    """Fill `vram_mib` with operands and multiply them in 16-bit with 32-bit accumulation for `duration_s`."""

    size: int
    vram_mib: float
    duration_s: float
    settle_s: float
    round_s: float
    memory: MemoryPlan = NO_POLICY

    def run(self, device: Device, context: WorkerContext) -> None:
        """Multiply."""
        from rigproof.stages.sustained.workload import run_sustained  # noqa: PLC0415 - it needs torch

        run_sustained(self, device, context)


def specs(work: StageWork) -> dict[str, Spec]:
    """Every worker fills its share of memory and multiplies for the whole stage."""
    plan, stage = work.plan, work.stage

    def spec(worker: WorkerPlan) -> Spec:
        return SustainedSpec(
            stage=stage.name,
            size=worker.gemm_size,
            vram_mib=worker.vram_mib,
            duration_s=stage.measure_s,
            settle_s=stage.settle_s,
            round_s=stage.round_s,
            memory=worker.memory,
        )

    return {worker.worker: spec(worker) for worker in plan.workers}
