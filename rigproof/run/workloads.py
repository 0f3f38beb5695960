"""Which workload each worker gets in each stage."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from rigproof.host.cpu_band import HostLoad, thread_plan
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import MemoryPlan, Plan, StagePlan, WorkerPlan
from rigproof.profiles.planning.planning import MIB_PER_GIB, device_plan
from rigproof.workloads.specs import (
    FeedingSpec,
    GemmSpec,
    SharingSpec,
    SustainedSpec,
    TrainingSpec,
    WorkloadSpec,
)

_Value = TypeVar("_Value")


def specs_of(
    loaded: LoadedRig, plan: Plan, stage: StagePlan, cpus: Mapping[str, float]
) -> dict[str, WorkloadSpec]:
    """What each worker of the stage does, by worker. `cpus`: those found, by node."""
    match stage.name:
        case "gemm":
            return gemm_specs(plan, stage)
        case "sustained":
            return sustained_specs(plan, stage)
        case "training":
            return training_specs(loaded, plan, stage)
        case "feeding":
            return feeding_specs(loaded, plan, stage, cpus)
        case "sharing":
            return sharing_specs(loaded, plan, stage)
    raise ValueError(f"no stage is called {stage.name}")


def gemm_specs(plan: Plan, stage: StagePlan) -> dict[str, WorkloadSpec]:
    """One worker of each device measures every precision that the device has."""
    return {
        worker.worker: GemmSpec(
            stage=stage.name,
            size=worker.gemm_size,
            precisions=(),
            settle_s=stage.settle_s,
            measure_s=stage.measure_s,
            round_s=stage.round_s,
        )
        for worker in plan.first_workers()
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
            memory=worker.memory,
        )

    return {worker.worker: spec(worker) for worker in plan.workers}


def training_specs(loaded: LoadedRig, plan: Plan, stage: StagePlan) -> dict[str, WorkloadSpec]:
    """One worker of each device trains, with the memory of all the device's workers."""
    devices = {device.subject: device for device in loaded.devices()}

    def spec(worker: WorkerPlan) -> WorkloadSpec:
        training = loaded.training_of(devices[worker.subject])
        return TrainingSpec(
            stage=stage.name,
            vram_mib=_vram_mib(plan, worker),
            duration_s=stage.measure_s,
            round_s=stage.round_s,
            sequence=_told(training.sequence),
            model_share=_told(training.model_share),
            batch=_told(training.batch),
            batches=_told(training.batches),
            search=_told(training.search),
            target_share=_told(training.target_share),
            reserve_mib=_told(training.reserve_gib) * MIB_PER_GIB,
            tf32=_told(training.tf32),
            cudnn_benchmark=_told(training.cudnn_benchmark),
            memory=_whole(plan, worker),
        )

    return {worker.worker: spec(worker) for worker in plan.first_workers()}


def feeding_specs(
    loaded: LoadedRig, plan: Plan, stage: StagePlan, cpus: Mapping[str, float]
) -> dict[str, WorkloadSpec]:
    """One worker of each device generates; the node's CPUs are shared between its devices' pools."""
    feeding = loaded.rig.feeding
    limits = {device.subject: device.limits for device in loaded.devices()}
    first = plan.first_workers()

    def spec(worker: WorkerPlan) -> WorkloadSpec:
        devices = sum(one.node == worker.node for one in first)
        room = max(1, int(cpus.get(worker.node, 1.0)) // devices)
        processes = min(_told(feeding.processes), room)
        share = limits[worker.subject].reward_speedup_share
        return FeedingSpec(
            stage=stage.name,
            vram_mib=_vram_mib(plan, worker),
            duration_s=stage.measure_s,
            round_s=stage.round_s,
            completions=_told(feeding.completions),
            processes=processes,
            strategy_s=_told(feeding.strategy_s),
            strategy_memory_mib=_told(feeding.strategy_memory_mib),
            overlap=_told(feeding.overlap),
            reward_speedup=1.0 if share is None or processes == 1 else share * processes,
        )

    return {worker.worker: spec(worker) for worker in first}


def sharing_specs(loaded: LoadedRig, plan: Plan, stage: StagePlan) -> dict[str, WorkloadSpec]:
    """One worker of each device starts the processes that share it."""
    sharing = loaded.rig.sharing
    devices = {device.subject: device for device in loaded.devices()}

    def spec(worker: WorkerPlan) -> WorkloadSpec:
        memory_gib = device_plan(loaded, devices[worker.subject]).memory_gib
        room_mib = _vram_mib(plan, worker)
        if worker.device == "cuda" and memory_gib is not None:
            room_mib = _told(sharing.vram_share) * memory_gib * MIB_PER_GIB
        return SharingSpec(
            stage=stage.name,
            size=worker.gemm_size,
            vram_mib=room_mib,
            duration_s=stage.measure_s,
            round_s=stage.round_s,
            workers=_told(sharing.workers),
            cpus=sum(one.cpus for one in plan.workers_of(worker.subject)),
        )

    return {worker.worker: spec(worker) for worker in plan.first_workers()}


def _vram_mib(plan: Plan, worker: WorkerPlan) -> float:
    """What all workers of its device together fill."""
    return sum(one.vram_mib for one in plan.workers_of(worker.subject))


def _whole(plan: Plan, worker: WorkerPlan) -> MemoryPlan:
    """The worker's policy with the cap of all workers of its device: it works there alone."""
    caps = [one.memory.cap_mib for one in plan.workers_of(worker.subject)]
    together = None if None in caps else sum(cap for cap in caps if cap is not None)
    return replace(worker.memory, cap_mib=together)


def _told(value: _Value | None) -> _Value:
    """A value that planning has found to be there."""
    if value is None:
        raise ValueError("the plan was made without it")
    return value


def host_load(loaded: LoadedRig, node: str, cpus: float) -> HostLoad | None:
    """What holds the middle of a node's CPU band; None where the profile switches the CPU load off."""
    cpu = loaded.cpu_of(node)
    if not cpu.enabled or cpu.band_percent is None:
        return None
    primary, secondary = thread_plan(cpus, cpu.primary_thread_share or 0.0, cpu.secondary_thread_share or 0.0)
    return HostLoad(primary, secondary, target_percent=sum(cpu.band_percent) / 2)
