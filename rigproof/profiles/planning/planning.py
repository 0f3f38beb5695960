"""From a rig to its plan: which worker does what, where, for how long."""

import math
from collections import Counter
from dataclasses import dataclass

from rigproof.profiles.errors import ProfileError, problem
from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.planning.plan import MemoryPlan, Plan, WorkerPlan
from rigproof.profiles.planning.subjects import number_of_shifts, number_of_turns
from rigproof.profiles.tables.gpu import GpuDefaults
from rigproof.profiles.tables.levels import LevelName
from rigproof.profiles.tables.stages import TimedSettings

MIB_PER_GIB = 1024
RAY_SHARE_STEPS = 10_000  # Ray counts resources in ten-thousandths and rounds finer values
# Covers Ray's cold start (2.2-3.5 s) and end (1.1-2.3 s), and imports and first use of the device by workers.
START_STOP_S = 15.0
START_PER_WORKER_S = 0.4  # 64 actors started in 27 s; two are within START_STOP_S


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """The workers' plan on one device, with the defaults filled in.

    `memory_gib` and `vram_mib` are None if neither the profile nor the SKU file determines them.
    """

    workers: int
    gpu_share: float  # per worker
    cpus: float  # per worker
    memory_gib: float | None  # of the card; the node's RAM for the CPU as the device
    vram_mib: float | None  # per worker
    gemm_size: int


def device_plan(loaded: LoadedRig, device: PromisedDevice) -> DevicePlan:
    """The plan of one device: its own values, else `gpu_defaults`."""
    gpu, defaults, cpu = device.gpu, loaded.rig.gpu_defaults, device.gpu.device == "cpu"
    memory_gib = gpu.memory_gib or (device.sku.memory_gib if device.sku else None)
    if cpu:
        memory_gib = memory_gib or loaded.node(device.node).ram_gib
    share = gpu.vram_share or (defaults.cpu_vram_share if cpu else defaults.vram_share)
    vram_gib = gpu.vram_gib_per_worker
    if vram_gib is None and memory_gib is not None:
        vram_gib = share * memory_gib / gpu.workers
    return DevicePlan(
        workers=gpu.workers,
        gpu_share=0.0 if cpu else gpu.gpu_share or _even_share(gpu.workers),
        cpus=_cpus(loaded, device, defaults),
        memory_gib=memory_gib,
        vram_mib=None if vram_gib is None else vram_gib * MIB_PER_GIB,
        gemm_size=gpu.gemm_size or (defaults.cpu_gemm_size if cpu else defaults.gemm_size),
    )


def make_plan(loaded: LoadedRig, level: LevelName, duration_s: float | None = None) -> Plan:
    """The plan of a rig at a level; `duration_s` replaces the level's length of a continuous load.

    A soak goes round its stages until `duration_s` (default: `levels.soak_s`) are over: as many laps as come
    nearest to that, each with as much continuous load as makes them end then.
    Raises ProfileError if a device's memory size is unknown.
    """
    problems: list[str] = []
    workers = tuple(worker for device in loaded.devices() for worker in _workers(loaded, device, problems))
    laps, steady_s = _laps(loaded, duration_s) if level == "soak" else (1, duration_s)
    stages = _stages(loaded, level, steady_s)
    if problems:
        raise ProfileError(problems)
    # Nodes start their workers in parallel, so the node with most workers counts.
    fullest = max(Counter(worker.node for worker in workers).values(), default=0)
    start_stop_s = START_STOP_S + START_PER_WORKER_S * max(0, fullest - 2)
    return Plan(
        level=level,
        workers=workers,
        stages=stages,
        expected_s=start_stop_s + laps * sum(stage.expected_s for stage in stages),
        laps=laps,
    )


def _laps(loaded: LoadedRig, duration_s: float | None) -> tuple[int, float | None]:
    """The number of times that a soak goes round its stages, and its continuous load in each lap.

    That is None, for the profile's own, if no duration is asked for.
    """
    stages = _stages(loaded, "soak", None)
    lap_s = sum(stage.expected_s for stage in stages)
    soak_s = loaded.rig.levels.soak_s if duration_s is None else duration_s
    laps = max(1, round(soak_s / lap_s)) if lap_s else 1
    if duration_s is None:
        return laps, None
    steady = [kind for kind in loaded.kinds if kind.duty == "continuous"]
    others_s = sum(one.expected_s for one in stages if loaded.kinds[one.name] not in steady)
    return laps, max(duration_s / laps - others_s, *(kind.shortest_s for kind in steady), 0.0)


def unknown_memory(loaded: LoadedRig, device: PromisedDevice) -> list[str]:
    """The problem that a device's memory size is unknown, if its plan needs it."""
    plan, key = device_plan(loaded, device), f"{device.key}.sku"
    if plan.memory_gib is not None or plan.vram_mib is not None:
        return []
    wrong = "the memory size of this device is not known"
    way_out = "write for example vram_gib_per_worker = 4, or memory_gib"
    return [problem(loaded.source_of(key), loaded.written(key), device.gpu.sku, wrong, way_out)]


def _workers(loaded: LoadedRig, device: PromisedDevice, problems: list[str]) -> list[WorkerPlan]:
    plan = device_plan(loaded, device)
    if plan.vram_mib is None:
        problems += unknown_memory(loaded, device)
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
    """The profile's policy; keys that it leaves out stay unset."""
    policy = loaded.memory_of(device)
    stated = {key: value for key in type(policy).model_fields if (value := getattr(policy, key)) is not None}
    share = stated.pop("fraction_share", None)
    cap_mib = None
    if share is not None and plan.memory_gib is not None:
        cap_mib = share * plan.memory_gib * MIB_PER_GIB / plan.workers
    return MemoryPlan(cap_mib=cap_mib, **stated)


def _even_share(workers: int) -> float:
    """1 / workers, rounded down to Ray's precision: seven times 0.1429 would not fit one GPU."""
    return math.floor(RAY_SHARE_STEPS / workers) / RAY_SHARE_STEPS


def _cpus(loaded: LoadedRig, device: PromisedDevice, defaults: GpuDefaults) -> float:
    """CPUs of one worker. If the CPU is the device: its threads, a whole number of at least one."""
    if device.gpu.cpus_per_worker is not None:
        return device.gpu.cpus_per_worker
    if device.gpu.device == "cuda":
        return defaults.cpus_per_worker
    share, cpus = defaults.cpu_thread_share, loaded.node(device.node).cpus
    if cpus is None:
        return 1.0
    return float(max(1, math.floor(share * cpus / device.gpu.workers)))


def _stages(loaded: LoadedRig, level: LevelName, duration_s: float | None) -> tuple[StagePlan, ...]:
    round_s = loaded.rig.levels.round_s.at(level)
    found = []
    for kind in loaded.kinds:
        settings = loaded.stages[kind.name]
        if duration_s is not None and kind.duty == "continuous" and isinstance(settings, TimedSettings):
            length_s = settings.length_s.model_copy(update={level: duration_s})
            settings = settings.model_copy(update={"length_s": length_s})
        planned, turns = kind.planned(settings, level, round_s), number_of_turns(kind.crew, loaded)
        if planned is not None and turns:
            found.append(planned.in_shifts(number_of_shifts(kind.crew, loaded)).in_turns(turns))
    return tuple(found)
