"""Which workload each worker gets in each stage."""

import math

from rigproof.profiles.loaded import LoadedRig
from rigproof.profiles.plan import Plan, StagePlan, WorkerPlan
from rigproof.workloads.specs import GemmSpec, SustainedSpec, WorkloadSpec


def gemm_specs(plan: Plan, stage: StagePlan) -> dict[str, WorkloadSpec]:
    """One worker of each device measures every precision that the device has."""
    first = {worker.subject: worker for worker in reversed(plan.workers)}
    return {
        worker.worker: GemmSpec(
            stage=stage.name,
            size=worker.gemm_size,
            precisions=(),
            settle_s=stage.settle_s,
            measure_s=stage.measure_s,
            round_s=stage.round_s,
        )
        for worker in first.values()
    }


def sustained_specs(plan: Plan, stage: StagePlan) -> dict[str, WorkloadSpec]:
    """Every worker fills its share of memory and multiplies for the whole stage."""

    def spec(worker: WorkerPlan) -> WorkloadSpec:
        return SustainedSpec(
            stage=stage.name,
            size=worker.gemm_size,
            vram_mib=worker.vram_mib,
            duration_s=stage.measure_s,
            settle_s=stage.settle_s,
            round_s=stage.round_s,
        )

    return {worker.worker: spec(worker) for worker in plan.workers}


def band_target_percent(loaded: LoadedRig, node: str) -> float | None:
    """The middle of the node's CPU band; None where the profile switches the CPU load off."""
    cpu = loaded.cpu_of(node)
    if not cpu.enabled or cpu.band_percent is None:
        return None
    low, high = cpu.band_percent
    return (low + high) / 2


def host_load_threads(loaded: LoadedRig, node: str, cpus: float) -> int:
    """Threads that hold a node's band: the primary and the secondary share of its CPUs, rounded up.

    With fewer the band is out of reach. The seed documents start 70 % + 15 % of the CPUs; the controller
    decides how much each thread works.
    """
    cpu = loaded.cpu_of(node)
    share = (cpu.primary_thread_share or 0.0) + (cpu.secondary_thread_share or 0.0)
    return max(1, math.ceil(cpus * share))
