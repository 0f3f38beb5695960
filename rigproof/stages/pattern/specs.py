"""A worker's task in the pattern stage."""

from dataclasses import dataclass

from rigproof.devices.context import WorkerContext
from rigproof.devices.device import Device
from rigproof.devices.specs import Spec
from rigproof.profiles.planning.plan import NO_POLICY, MemoryPlan, WorkerPlan
from rigproof.stages.pattern.settings import PatternSettings
from rigproof.stages.slice import StageWork


@dataclass(frozen=True, slots=True)
class PatternSpec(Spec):
    """Fill `free_share` of what is free with each pattern in turn, for `duration_s`, and compare every word.

    At most `most_mib` is tested; None: no such limit. `fade_s` is each of the two pauses of the last pattern;
    0: without it.
    """

    duration_s: float
    fade_s: float
    free_share: float
    most_mib: float | None = None
    memory: MemoryPlan = NO_POLICY

    def run(self, device: Device, context: WorkerContext) -> None:
        """Test the memory."""
        from rigproof.stages.pattern.workload import run_pattern  # noqa: PLC0415 - it needs torch

        run_pattern(self, device, context)


def specs(work: StageWork) -> dict[str, Spec]:
    """One worker of each device tests its memory, with what all the device's workers may take."""
    loaded, plan, stage = work.loaded, work.plan, work.stage
    settings = {device.subject: device.settings(PatternSettings) for device in loaded.devices()}

    def spec(worker: WorkerPlan) -> Spec:
        own = settings[worker.subject]
        return PatternSpec(
            stage=stage.name,
            duration_s=stage.measure_s,
            fade_s=own.fade_s.at(plan.level),
            free_share=own.free_share,
            most_mib=own.cpu_mib if worker.device == "cpu" else None,
            memory=plan.memory_beside(worker),
        )

    return {worker.worker: spec(worker) for worker in plan.first_workers()}
