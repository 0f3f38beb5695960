"""A worker's task in the replay stage."""

from dataclasses import dataclass

from rigproof.devices.context import WorkerContext
from rigproof.devices.device import Device
from rigproof.devices.specs import Spec
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.stages.replay.settings import ReplaySettings
from rigproof.stages.slice import StageWork


@dataclass(frozen=True, slots=True)
class ReplaySpec(Spec):
    """Train a model, sized from `vram_mib`, for a few steps, from the same start again and again."""

    vram_mib: float
    duration_s: float
    sequence: int
    model_share: float
    batch: int
    steps: int

    def run(self, device: Device, context: WorkerContext) -> None:
        """Replay the steps."""
        from rigproof.stages.replay.workload import run_replay  # noqa: PLC0415 - it needs torch

        run_replay(self, device, context)


def specs(work: StageWork) -> dict[str, Spec]:
    """One worker of each device trains, with the memory of all the device's workers."""
    loaded, plan, stage = work.loaded, work.plan, work.stage
    settings = {device.subject: device.settings(ReplaySettings) for device in loaded.devices()}

    def spec(worker: WorkerPlan) -> Spec:
        own = settings[worker.subject]
        vram_mib = plan.vram_mib_beside(worker)
        return ReplaySpec(
            stage.name, vram_mib, stage.measure_s, own.sequence, own.model_share, own.batch, own.steps
        )

    return {worker.worker: spec(worker) for worker in plan.first_workers()}
