"""A worker's task in the pattern stage."""

from dataclasses import dataclass

from rigproof.devices.context import WorkerContext
from rigproof.devices.device import Device
from rigproof.devices.specs import Spec
from rigproof.profiles.planning.plan import NO_POLICY, MemoryPlan, WorkerPlan
from rigproof.profiles.planning.planning import MIB_PER_GIB
from rigproof.stages.pattern.settings import PatternSettings
from rigproof.stages.slice import StageWork


@dataclass(frozen=True, slots=True)
class PatternSpec(Spec):
    """Fill `free_share` of what is free with each pattern in turn, for `duration_s`, and compare every word.

    At most `most_mib` is tested; None: no such limit. `reserve_mib` stay free, unless less than `least_share`
    could be filled then. `fade_s` is each of the two pauses of the last pattern;
    0: without it.
    """

    duration_s: float
    fade_s: float
    free_share: float
    most_mib: float | None = None
    memory: MemoryPlan = NO_POLICY
    least_share: float = 0.0
    reserve_mib: float = 0.0

    def run(self, device: Device, context: WorkerContext) -> None:
        """Test the memory."""
        from rigproof.stages.pattern.workload import run_pattern  # noqa: PLC0415 - it needs torch

        run_pattern(self, device, context)


def specs(work: StageWork) -> dict[str, Spec]:
    """One worker of each device tests its memory, with what all the device's workers may take."""
    loaded, plan, stage = work.loaded, work.plan, work.stage
    devices = {device.subject: device for device in loaded.devices()}

    def spec(worker: WorkerPlan) -> Spec:
        device = devices[worker.subject]
        own, headroom_gib = device.settings(PatternSettings), device.limits.headroom_gib or 0.0
        return PatternSpec(
            stage=stage.name,
            duration_s=stage.measure_s,
            fade_s=own.fade_s.at(plan.level),
            free_share=own.free_share,
            most_mib=own.cpu_mib if worker.device == "cpu" else None,
            least_share=own.tested_share,
            reserve_mib=headroom_gib * MIB_PER_GIB,
            memory=plan.memory_beside(worker),
        )

    return {worker.worker: spec(worker) for worker in plan.first_workers()}
