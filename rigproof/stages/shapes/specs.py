"""A worker's task in the shapes stage."""

from dataclasses import dataclass

from rigproof.devices.context import WorkerContext
from rigproof.devices.device import Device
from rigproof.devices.specs import Spec
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.stages.shapes.settings import ShapesSettings
from rigproof.stages.slice import StageWork


@dataclass(frozen=True, slots=True)
class ShapesSpec(Spec):
    """Measure products around the size of the model that fits `model_share` of `vram_mib`, in turn."""

    vram_mib: float
    duration_s: float
    sequence: int
    model_share: float
    tokens: int

    def run(self, device: Device, context: WorkerContext) -> None:
        """Measure each of them."""
        from rigproof.stages.shapes.workload import run_shapes  # noqa: PLC0415 - it needs torch

        run_shapes(self, device, context)


def specs(work: StageWork) -> dict[str, Spec]:
    """One worker of each device multiplies, with the memory of all the device's workers."""
    plan, stage = work.plan, work.stage
    settings = {device.subject: device.settings(ShapesSettings) for device in work.loaded.devices()}

    def spec(worker: WorkerPlan) -> Spec:
        own, vram_mib = settings[worker.subject], plan.vram_mib_beside(worker)
        return ShapesSpec(stage.name, vram_mib, stage.measure_s, own.sequence, own.model_share, own.tokens)

    return {worker.worker: spec(worker) for worker in plan.first_workers()}
