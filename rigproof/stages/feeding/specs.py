"""A worker's task in the feeding stage."""

from dataclasses import dataclass

from rigproof.devices.context import WorkerContext
from rigproof.devices.device import Device
from rigproof.devices.specs import Spec
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.stages.feeding.settings import FeedingSettings
from rigproof.stages.slice import StageWork


@dataclass(frozen=True, slots=True)
class FeedingSpec(Spec):
    """Generate `completions` per step on the device, and compute their rewards in `processes` on the CPU.

    Generating a step takes as long as its rewards would if they were `reward_speedup` times as fast as
    sequential ones.
    """

    vram_mib: float
    duration_s: float
    round_s: float
    completions: int
    processes: int
    strategy_s: float
    strategy_memory_mib: float
    overlap: bool
    reward_speedup: float = 1.0

    def run(self, device: Device, context: WorkerContext) -> None:
        """Generate."""
        from rigproof.stages.feeding.workload import run_feeding  # noqa: PLC0415 - it needs torch

        run_feeding(self, device, context)


def specs(work: StageWork) -> dict[str, Spec]:
    """One worker of each device generates; the node's CPUs are shared between its devices' pools."""
    loaded, plan, stage, cpus = work.loaded, work.plan, work.stage, work.cpus
    settings = {device.subject: device.settings(FeedingSettings) for device in loaded.devices()}
    first = plan.first_workers()

    def spec(worker: WorkerPlan) -> Spec:
        devices = sum(other.node == worker.node for other in first)
        room = max(1, int(cpus.get(worker.node, 1.0)) // devices)
        feeding = settings[worker.subject]
        processes = min(feeding.processes, room)
        return FeedingSpec(
            stage=stage.name,
            vram_mib=plan.vram_mib_beside(worker),
            duration_s=stage.measure_s,
            round_s=stage.round_s,
            completions=feeding.completions,
            processes=processes,
            strategy_s=feeding.strategy_s,
            strategy_memory_mib=feeding.strategy_memory_mib,
            overlap=feeding.overlap,
            reward_speedup=1.0 if processes == 1 else feeding.reward_speedup_share * processes,
        )

    return {worker.worker: spec(worker) for worker in first}
