"""From a rig to its plan: which worker does what, where, for how long."""

import math
from collections import Counter
from dataclasses import dataclass

from rigproof.profiles.errors import ProfileError, problem
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.planning.crews import number_of_turns
from rigproof.profiles.planning.plan import MemoryPlan, Plan, StagePlan, WorkerPlan
from rigproof.profiles.planning.stages import stage_kinds
from rigproof.profiles.tables.base import Table
from rigproof.profiles.tables.models import GpuDefaults, Level, LevelName

MIB_PER_GIB = 1024
RAY_SHARE_STEPS = 10_000  # Ray counts resources in ten-thousandths and rounds what is finer
# Ray's cold start 2.2-3.5 s and end 1.1-2.3 s, imports and the device's first use in each worker.
START_STOP_S = 15.0
START_PER_WORKER_S = 0.4  # 64 actors came up in 27 s; two are within START_STOP_S


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """What all workers of one device get, defaults filled in. None: the profile does not tell."""

    workers: int
    gpu_share: float  # per worker
    cpus: float | None  # per worker
    memory_gib: float | None  # of the card; the node's RAM for the CPU as the device
    vram_mib: float | None  # per worker
    gemm_size: int | None


def device_plan(loaded: LoadedRig, device: PromisedDevice) -> DevicePlan:
    """The plan of one device: its own values, else `gpu_defaults`."""
    gpu, defaults, cpu = device.gpu, loaded.rig.gpu_defaults, device.gpu.device == "cpu"
    memory_gib = gpu.memory_gib or (device.sku.memory_gib if device.sku else None)
    if cpu:
        memory_gib = memory_gib or loaded.node(device.node).ram_gib
    share = gpu.vram_share or (defaults.cpu_vram_share if cpu else defaults.vram_share)
    vram_gib = gpu.vram_gib_per_worker
    if vram_gib is None and share is not None and memory_gib is not None:
        vram_gib = share * memory_gib / gpu.workers
    return DevicePlan(
        workers=gpu.workers,
        gpu_share=0.0 if cpu else gpu.gpu_share or _even_share(gpu.workers),
        cpus=_cpus(loaded, device, defaults),
        memory_gib=memory_gib,
        vram_mib=None if vram_gib is None else vram_gib * MIB_PER_GIB,
        gemm_size=gpu.gemm_size or (defaults.cpu_gemm_size if cpu else defaults.gemm_size),
    )


def make_plan(loaded: LoadedRig, level: LevelName, sustained_s: float | None = None) -> Plan:
    """The plan of a rig at a level; `sustained_s` replaces the level's sustained stage length.

    Raises ProfileError where the profile leaves out what a plan needs.
    """
    problems: list[str] = []
    workers = tuple(worker for device in loaded.devices() for worker in _workers(loaded, device, problems))
    stages = _stages(loaded, level, sustained_s, problems)
    if problems:
        raise ProfileError(problems)
    # Nodes start their workers side by side, so the fullest node counts.
    fullest = max(Counter(worker.node for worker in workers).values(), default=0)
    start_stop_s = START_STOP_S + START_PER_WORKER_S * max(0, fullest - 2)
    return Plan(
        level=level,
        workers=workers,
        stages=stages,
        expected_s=start_stop_s + sum(stage.expected_s for stage in stages),
    )


def missing_parts(loaded: LoadedRig, device: PromisedDevice) -> list[str]:
    """What the profile has to say before the workers of a device can be planned, as problems."""
    plan, gpu = device_plan(loaded, device), device.gpu
    found = untold_memory(loaded, device)
    if plan.vram_mib is None and not found:
        key = "cpu_vram_share" if gpu.device == "cpu" else "vram_share"
        found.append(f"{loaded.file}: gpu_defaults.{key}: missing; write {key} = 0.7, say")
    if plan.gemm_size is None:
        found.append(f"{loaded.file}: gpu_defaults.gemm_size: missing; write gemm_size = 8192, say")
    if plan.cpus is None:
        found.append(f"{loaded.file}: gpu_defaults.cpus_per_worker: missing; write cpus_per_worker = 1, say")
    return found


def untold_memory(loaded: LoadedRig, device: PromisedDevice) -> list[str]:
    """The problem that nobody knows how much memory a device has, where that is so and its plan needs it."""
    plan, key = device_plan(loaded, device), f"{device.key}.sku"
    if plan.memory_gib is not None or plan.vram_mib is not None:
        return []
    wrong = "how much memory this device has is not known"
    way_out = "write vram_gib_per_worker = 4, say, or memory_gib"
    return [problem(loaded.source_of(key), loaded.written(key), device.gpu.sku, wrong, way_out)]


def _workers(loaded: LoadedRig, device: PromisedDevice, problems: list[str]) -> list[WorkerPlan]:
    plan = device_plan(loaded, device)
    if plan.cpus is None or plan.vram_mib is None or plan.gemm_size is None:
        problems += missing_parts(loaded, device)
        return []
    memory = _memory_plan(loaded, device, plan)
    return [
        WorkerPlan(
            worker=f"{device.subject}#{number}",
            subject=device.subject,
            node=device.node,
            device=device.gpu.device,
            gpu_share=plan.gpu_share,
            cpus=plan.cpus,
            vram_mib=plan.vram_mib,
            gemm_size=plan.gemm_size,
            memory=memory,
        )
        for number in range(plan.workers)
    ]


def _memory_plan(loaded: LoadedRig, device: PromisedDevice, plan: DevicePlan) -> MemoryPlan:
    """The profile's policy; what it leaves out stays without."""
    policy = loaded.memory_of(device)
    stated = {key: value for key in type(policy).model_fields if (value := getattr(policy, key)) is not None}
    share = stated.pop("fraction_share", None)
    cap_mib = None
    if share is not None and plan.memory_gib is not None:
        cap_mib = share * plan.memory_gib * MIB_PER_GIB / plan.workers
    return MemoryPlan(cap_mib=cap_mib, **stated)


def _even_share(workers: int) -> float:
    """1 / workers, rounded down to what Ray counts: seven times its 0.1429 would not fit one GPU."""
    return math.floor(RAY_SHARE_STEPS / workers) / RAY_SHARE_STEPS


def _cpus(loaded: LoadedRig, device: PromisedDevice, defaults: GpuDefaults) -> float | None:
    """CPUs of one worker. Where the CPU is the device: its threads, whole and at least one."""
    if device.gpu.cpus_per_worker is not None:
        return device.gpu.cpus_per_worker
    if device.gpu.device == "cuda":
        return defaults.cpus_per_worker
    share, cpus = defaults.cpu_thread_share, loaded.node(device.node).cpus
    if share is None or cpus is None:
        return 1.0
    return float(max(1, math.floor(share * cpus / device.gpu.workers)))


def _unstated(loaded: LoadedRig, level: Level) -> list[str]:
    """What the tables of the level's stages leave out."""
    tables: list[tuple[str, Table]] = []
    if level.training_s:
        tables += [("training", loaded.training_of(device)) for device in loaded.devices()]
    if level.feeding_s:
        tables.append(("feeding", loaded.rig.feeding))
    if level.sharing_s:
        tables.append(("sharing", loaded.rig.sharing))
    missing = [
        f"{loaded.file}: {name}.{key}: missing; write it, or extend a rig that has it"
        for name, table in tables
        for key in type(table).model_fields
        if getattr(table, key) is None
    ]
    return list(dict.fromkeys(missing))


def _stages(
    loaded: LoadedRig, level: LevelName, sustained_s: float | None, problems: list[str]
) -> tuple[StagePlan, ...]:
    kinds = stage_kinds()
    length: Level = getattr(loaded.rig.levels, level)
    if sustained_s is not None:
        keys = (kind.length_key for kind in kinds if kind.duty == "continuous" and kind.length_key)
        length = length.model_copy(update=dict.fromkeys(keys, sustained_s))
    # Stages that a level may go without; 0 or absent: not at this level.
    optional = {kind.length_key for kind in kinds if kind.optional}
    missing = [key for key in Level.model_fields if key not in optional and getattr(length, key) is None]
    if missing:
        problems += [
            f"{loaded.file}: levels.{level}.{key}: missing; write its length in seconds" for key in missing
        ]
        return ()
    problems += _unstated(loaded, length)
    turns = ((kind.planned(length), number_of_turns(kind.crew, loaded)) for kind in kinds)
    return tuple(planned.in_turns(number) for planned, number in turns if planned is not None and number)
