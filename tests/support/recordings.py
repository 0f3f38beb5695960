"""A healthy rig's Recording: the one that every test starts from and most break.

Timeline (run time, s): idle from 0; the gemm stage from 5 to 25; the sustained stage from 26 to 71, under
load from 30 to 70; the training stage from 72 to 92; the feeding stage from 93 to 113, its generation
measured from 99 to 112; the sharing stage from 114 to 134. Two nodes, one H200 each; two workers on
pc1/gpu0, one on pc2/gpu0.
"""

import contextlib
import pickle
import tomllib
from copy import copy
from dataclasses import replace
from functools import cache
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import tomlkit

from rigproof.profiles.errors import ProfileError
from rigproof.profiles.kinds.models import models_of
from rigproof.profiles.loading.files import profile_folder
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.planning import make_plan
from rigproof.profiles.planning.recorded import recorded
from rigproof.profiles.tables.levels import LEVELS
from rigproof.records.identity import GpuIdentity, NodeIdentity, RunInfo, WorkerIdentity
from rigproof.records.measurements import (
    TFLOP,
    BootReading,
    Event,
    ForeignMemory,
    GpuCounters,
    MemoryReading,
    Round,
    Stage,
)
from rigproof.records.pcie import PcieErrors
from rigproof.records.processes import GpuProcess, ProcessWatch
from rigproof.records.recording import Recording
from rigproof.records.samples import GpuSample, HostSample
from rigproof.stages.feeding.records import RewardBatch
from rigproof.stages.registry import KINDS

LIMITS = {
    "throttle_share": 0.01,
    "throttle_events": 1,
    "throttle_event_s": 1.0,
    "clock_unknown_share": 0.70,
    "clock_capped_power_share": 0.90,
    "power_cap_fail_share": 0.50,
    "active_utilization_share": 0.80,
    "clock_ratio_share": 0.85,
    "power_over_limit_share": 1.05,
    "active_power_share": 0.30,
    "active_work_share": 0.90,
    "stability_worst_window_share": 0.85,
    "peer_share": 0.94,
    "headroom_gib": 0.5,
    "champion_share": 0.95,
    "floor_measured_share": 0.92,
    "floor_similar_share": 0.85,
    "floor_printed_share": 0.75,
    "floor_unknown_share": 0.60,
    "floor_sharing_share": 0.90,
    "floor_cards": 3,
    "ceiling_share": 1.25,
    "success_share": 0.95,
    "ooms": 0,
    "ecc_uncorrected": 0,
    "remapped_rows_fail": 512,
    "retired_pages_fail": 63,
    "retired_pages_warn": 10,
    "pcie_bit_error_rate": 1e-12,
    "pcie_correctable_minute": 32,
    "pcie_uncorrected": 0,
    "host_share": 0.90,
    "host_cpus_per_gpu": 2,
    "host_ram_share": 0.95,
    "host_shm_gib": 1.0,
    "nvlink_replays": 0,
    "nvlink_crc_per_s": 100,
    "foreign_memory_warn_mib": 15,
    "stranger_sm_percent": 5.0,
    "stranger_growth_mib": 512.0,
    "sample_coverage_share": 0.80,
    "idle_share": 0.10,
}
STAGES: dict[str, dict[str, Any]] = {
    "gemm": {"settle_s": dict.fromkeys(LEVELS, 8), "measure_s": dict.fromkeys(LEVELS, 2)},
    "sustained": {
        "length_s": dict.fromkeys(LEVELS, 15),
        "settle_s": dict.fromkeys(LEVELS, 8),
        "stability_drop_share": 0.95,
        "combined_floor_tflops": 1100.0,
    },
    "training": {
        "length_s": dict.fromkeys(LEVELS, 20),
        "sequence": 512,
        "model_share": 0.1,
        "batch": 16,
        "batches": [1, 2, 4, 8, 16, 32],
        "search": True,
        "target_share": 0.95,
        "reserve_gib": 2.0,
        "tf32": True,
        "cudnn_benchmark": True,
        "training_unknown_share": 0.20,
    },
    "feeding": {
        "length_s": dict.fromkeys(LEVELS, 20),
        "completions": 64,
        "processes": 8,
        "strategy_s": 1.0,
        "strategy_memory_mib": 512,
        "overlap": True,
        "reward_speedup_share": 0.375,
        "reward_loss_share": 0.25,
    },
    "sharing": {
        "length_s": dict.fromkeys(LEVELS, 20),
        "workers": [1, 2, 3],
        "vram_share": 0.92,
        "sharing_share": 0.80,
    },
}
DEFAULTS = tomllib.loads((profile_folder() / "defaults.toml").read_text(encoding="utf-8"))
MEMORY = DEFAULTS["memory"]
CANNED = frozenset(STAGES)
# Stages that the canned recording knows nothing of are at none of its levels.
STAGES |= {
    name: table | {"length_s": dict.fromkeys(LEVELS, 0)}
    for name, table in DEFAULTS["stages"].items()
    if name not in STAGES
}
RIG = {
    "name": "two-nodes",
    "limits": LIMITS,
    "gpu_defaults": {
        "vram_share": 0.7,
        "gemm_size": 1024,
        "cpus_per_worker": 1,
        "cpu_gemm_size": 512,
        "cpu_vram_share": 0.02,
        "cpu_thread_share": 0.5,
    },
    "cpu": {
        "enabled": True,
        "band_percent": [70, 85],
        "warn_percent": 90,
        "warn_windows_share": 0.1,
        "in_band_share": 0.8,
        "primary_thread_share": 0.7,
        "secondary_thread_share": 0.15,
    },
    "responsiveness": {"p99_ms": 50, "max_ms": 250},
    "memory": MEMORY,
    "stages": STAGES,
    "sampling": {"rate_hz": 10},
    "timeouts": {"task_s": 60, "stall_s": 30, "start_s": 60, "stop_s": 10},
    "levels": {"round_s": dict.fromkeys(LEVELS, 0.05), "least_share": 0.9, "least_work_share": 0.5},
    "nodes": [
        {"name": "pc1", "cpus": 8, "ram_gib": 192, "gpus": [{"sku": "h200", "workers": 2}]},
        {"name": "pc2", "cpus": 8, "ram_gib": 192, "gpus": [{"sku": "h200", "workers": 1}]},
    ],
}
# A SKU file that is shipped, for runs that read their profile from a file.
SHIPPED_SKU = "h200-sxm"
RATES = {"fp32": 50.0, "tf32": 350.0, "fp16": 680.0, "bf16": 660.0, "fp8": 1250.0}
GEMM = ((6, 0.5), (11, 0.5), (16, 0.5), (21, 0.5), (20, 0.12))  # when each begins, and a round's length, s
STEADY = {f"gemm_{precision}_tflops": rate for precision, rate in RATES.items()}
STEADY |= {"training_tflops": 400.0, "training_speedup": 9.0}  # only printed: floors are 0.75 of them
MODELS = models_of(KINDS)
H200 = MODELS.sku.model_validate(
    {
        "name": "H200 SXM",
        "nvml_names": ["NVIDIA H200"],
        "memory_gib": 141,
        "memory_bandwidth_gbps": 4800,
        "power_limit_w": 700,
        "boost_clock_mhz": 1980,
        "nvlinks": 18,
        "peak_tflops": {"fp32": 67, "tf32": 494.5, "fp16": 989, "bf16": 989, "fp8": 1979},
        "steady": {name: {"value": value} for name, value in STEADY.items()},
        "temperature": {"max_operating_c": 87, "slowdown_c": 89, "memory_max_c": 95, "slowdown_margin_c": -2},
    }
)
RTX_3090 = MODELS.sku.model_validate(
    {
        "name": "RTX 3090",
        "nvml_names": ["NVIDIA GeForce RTX 3090"],
        "memory_gib": 24,
        "memory_bandwidth_gbps": 936,
        "power_limit_w": 350,
        "boost_clock_mhz": 1695,
        "peak_tflops": {"fp32": 35.6, "fp16": 71.2, "bf16": 71.2},
        "steady": {"gemm_fp32_tflops": {"value": 30}}
        | {f"gemm_{precision}_tflops": {"value": 66} for precision in ("fp16", "bf16")},
        "unsupported_sensors": ["memory_temperature", "ecc", "row_remap"],
    }
)
WORKERS = {"pc1/gpu0": ("pc1/gpu0#0", "pc1/gpu0#1"), "pc2/gpu0": ("pc2/gpu0#0",)}
STEP_S, END_S, LOAD_S = 0.1, 136.0, (30.0, 70.0)
STAGES_RUN = ("gemm", "sustained", "training", "feeding", "sharing")
OURS: dict[str, Any] = {"user": "tester", "name": "ray::Worker", "parents": (50, 1)}
HEALTH: dict[str, Any] = {
    **dict.fromkeys(("power_capped_s", "sync_boost_s", "sw_thermal_s", "hw_thermal_s", "power_brake_s"), 0.0),
    "remap_spares": (3072, 0, 0, 0, 0),
    "sram_threshold_exceeded": False,
    "channel_repair_pending": False,
    "tpc_repair_pending": False,
    "inforom_valid": True,
    "nvlinks": (True,) * 18,
    "nvlink_replays": (0,) * 18,
    "nvlink_recoveries": (0,) * 18,
    "nvlink_crc_errors": (0,) * 18,
    "fabric_state": "completed",
    "fabric_status": 0,
    "fabric_health": 0,
}
SHARING = {1: 1.0, 2: 0.92, 3: 0.91}  # processes on a card: their rate together, of one alone


def stage_changes(name: str, **changes: Any) -> dict[str, Any]:
    """The top-level key of a rig one of whose stages has other settings; None leaves one out."""
    table = {key: value for key, value in (STAGES[name] | changes).items() if value is not None}
    return {"stages": STAGES | {name: table}}


def loaded_rig(changes: dict[str, Any] | None = None) -> LoadedRig:
    """The rig of this page, with some of its top-level keys replaced."""
    sources = {f"limits.{name}": "hwprofiles/defaults.toml" for name in LIMITS}
    sources |= {
        f"stages.{stage}.{name}": "hwprofiles/defaults.toml"
        for stage, table in STAGES.items()
        for name in table
    }
    sources["stages.sustained.combined_floor_tflops"] = "hwprofiles/rigs/two-nodes.toml"
    return LoadedRig(
        rig=MODELS.rig.model_validate(RIG | (changes or {})),
        skus={"h200": H200, "rtx-3090": RTX_3090},
        sources=sources,
        file="hwprofiles/rigs/two-nodes.toml",
        kinds=KINDS,
    )


def profile_text(changes: dict[str, Any] | None = None) -> str:
    """The same rig as a profile's file, its cards of a SKU that is shipped."""
    nodes = [node | {"gpus": [gpu | {"sku": SHIPPED_SKU} for gpu in node["gpus"]]} for node in RIG["nodes"]]
    levels = {"round_s": RIG["levels"]["round_s"]}  # the rest is not for a file of a rig to say
    return tomlkit.dumps(RIG | {"nodes": nodes, "levels": levels} | (changes or {}))


def node_identity(name: str) -> NodeIdentity:
    return NodeIdentity(
        name, name, "127.0.0.1", 8, 192.0, "Linux", "3.11", "2.60", "2.13", "580.65.06", None, 1, 0.0, 0.0,
        driver_cuda="13.0", torch_cuda="13.0", nouveau=False, host_cpus=8, host_ram_gib=192.0, shm_gib=32.0,
    )  # fmt: skip


def boot_reading(node: str, moment: str, t_s: float) -> BootReading:
    return BootReading(t_s, node, moment, str(uuid5(NAMESPACE_OID, node)))  # type: ignore[arg-type]


def gpu_identity(subject: str, sku: str) -> GpuIdentity:
    return GpuIdentity(
        subject=subject,
        device="cuda",
        uuid=f"GPU-{subject}",
        name="NVIDIA H200",
        index=0,
        memory_total_mib=141 * 1024,
        sku=sku,
        power_limit_w=700,
        power_limit_default_w=700,
        sm_clock_max_mhz=1980,
        temperature_gpu_max_c=87,
        temperature_memory_max_c=95,
        slowdown_margin_c=-2,
        pcie_generation_max=5,
        pcie_width_max=16,
        ecc_enabled=True,
        ecc_pending=True,
        display_active=False,
        compute_mode="default",
        persistence=True,
        mig_enabled=False,
        mig_pending=False,
        xid_supported=True,
    )


def pcie_errors(subject: str, t_s: float) -> PcieErrors:
    """A few from the start of the host, and none since."""
    return PcieErrors(t_s, subject, 0, 1, 7, "0000:16:01.0", 0, 0, 3)


def gpu_sample(subject: str, index: int) -> GpuSample:
    """One point of the grid: idle, or under load with a little movement in every reading."""
    t_s = index * STEP_S
    busy = t_s >= 5
    return GpuSample(
        t_s=t_s,
        subject=subject,
        utilization_percent=100 if busy else 0,
        core_temperature_c=(62 + index % 5) if busy else 34,
        memory_temperature_c=(70 + index % 4) if busy else 40,
        power_w=(600 + 10 * (index % 7)) if busy else 80 + index % 3,
        power_average_w=(620 + 3 * (index % 5)) if busy else 80 + index % 3,
        sm_clock_mhz=(1900 + 15 * (index % 3)) if busy else 345,
        clock_event_reasons=0x0 if busy else 0x1,
        pcie_generation=5 if busy else 1,
        pcie_width=16,
        pcie_replays=2,
        thermal_margin_c=(25 - index % 5) if busy else 53,
    )


def host_sample(node: str, index: int) -> HostSample:
    return HostSample(
        t_s=index * STEP_S,
        subject=node,
        cpu_percent=76 + index % 4,
        ram_available_mib=32 * 1024,
        wakeup_delays_ms=tuple(0.2 + 0.1 * n for n in range(9)),
    )


def a_round(
    t_s: float, stage: str, worker: str, subject: str, phase: Any, seconds: float, work: float, **labels: Any
) -> Round:
    """A verified round of arithmetic."""
    return Round(t_s, stage, worker, subject, phase, seconds, work, TFLOP, True, labels)


def gemm_round(t_s: float, seconds: float = 0.05, work: float = 3.5, worker: str = "pc1/gpu0#0") -> Round:
    """A measured round of the gemm stage on pc1/gpu0, at 70 TFLOP/s if nothing else is stated."""
    labels = {"precision": "bf16", "size": 8192}
    return a_round(t_s, "gemm", worker, "pc1/gpu0", "measure", seconds, work, **labels)


def relabelled(one: Round, **labels: Any) -> Round:
    """The same round with other labels; None takes one away."""
    changed = {**one.labels, **labels}
    return replace(one, labels={name: value for name, value in changed.items() if value is not None})


def rounds_of(subject: str) -> list[Round]:
    """Each precision for itself on the first worker; then all workers share the rate of bf16."""
    workers = WORKERS[subject]
    rounds = []
    for (start_s, seconds), (precision, rate) in zip(GEMM, RATES.items(), strict=True):
        for n in range(8):
            phase = "exact" if n == 0 else "warmup" if n < 3 else "measure"
            t_s, work = start_s + (n + 1) * seconds, rate * seconds
            labels = {"precision": precision, "size": 1024}
            rounds.append(a_round(t_s, "gemm", workers[0], subject, phase, seconds, work, **labels))
    for worker in workers:
        for n in range(88):
            t_s = 26.0 + (n + 1) * 0.5
            phase = "warmup" if t_s <= 31 else "measure"
            work = RATES["bf16"] / 2 / len(workers)
            rounds.append(
                a_round(t_s, "sustained", worker, subject, phase, 0.5, work, precision="bf16", size=1024)
            )
    return rounds


ARITHMETIC = {
    "device": "NVIDIA H200",
    "torch": "2.13.0+cu130",
    "cublas": "13.1.0",
    "multiprocessors": 132,
    "capability": "9.0",
}


def references_of(subject: str) -> list[Event]:
    """What the products are: the same on every card, in each stage that repeats them."""

    def reference(t_s: float, stage: str, worker: str, precision: str, *, golden: bool = True) -> Event:
        checksums = {"1·0": f"{precision}-1·0", "0·1": f"{precision}-0·1"}
        data = {"precision": precision, "size": 1024, "checksums": checksums, "golden": golden, **ARITHMETIC}
        return Event(t_s, "reference", subject, "2 reference checksums", stage, worker, data)

    first, *_ = workers = WORKERS[subject]
    found = [
        reference(start_s - 0.5, "gemm", first, precision, golden=golden)
        for (start_s, _), precision in zip(GEMM, RATES, strict=True)
        for golden in (False, True)
    ]
    found += [reference(28.0, "sustained", worker, "bf16") for worker in workers]
    return [*found, reference(115.0, "sharing", first, "bf16")]


# A training step of one example, s, and of how much work, TFLOP.
ROUND_S_OF = {"precision": 0.25, "search": 0.5, "sweep": 0.15}  # as long as fits, one after the other
STEP_S_OF, STEP_TFLOP = {"fp32": 0.045, "tf32": 0.012, "fp16": 0.005}, 2.0
MODEL = {"width": 2496, "blocks": 8, "vocabulary": 8192, "sequence": 512, "parameters": 640_296_384}


def training_of(subject: str) -> list[Round | Event]:
    """Precisions at 16 examples from 73 s on, the search from 82 s on, the sweep from 86 s on."""
    worker = WORKERS[subject][0]
    records: list[Round | Event] = [Event(72.5, "model", subject, "640.3 M", "training", worker, dict(MODEL))]

    def run(part: str, precision: str, batch: int, from_s: float, rounds: int) -> None:
        step_s = STEP_S_OF[precision] * batch
        steps = max(1, round(ROUND_S_OF[part] / step_s))
        for n in range(rounds):
            phase = "warmup" if n < 2 and part != "search" else "measure"
            seconds, work = steps * step_s, steps * batch * STEP_TFLOP
            t_s = from_s + (n + 1) * seconds
            labels = {"precision": precision, "size": 2496, "part": part, "batch": batch, "steps": steps}
            records.append(a_round(t_s, "training", worker, subject, phase, seconds, work, **labels))

    def search_event(what: str, batch: int, t_s: float, **more: object) -> None:
        data = {"what": what, "batch": batch, "precision": "fp16", "limit_mib": 130_000.0}
        data |= {"peak_mib": 10_000.0 + 500 * batch} | more
        records.append(Event(t_s, "batch_search", subject, f"{what} {batch}", "training", worker, data))

    for from_s, precision in zip((73.0, 78.0, 80.0), STEP_S_OF, strict=True):
        run("precision", precision, 16, from_s, 6 if precision == "fp32" else 8)
        ends = {"precision": precision, "batch": 16, "first_loss": 9.5, "last_loss": 1.2, "overflows": 0}
        records.append(Event(from_s + 2, "training", subject, precision, "training", worker, dict(ends)))
    for from_s, batch in ((82.5, 104), (83.5, 170), (84.5, 230)):
        run("search", "fp16", batch, from_s, 1)
        search_event("probe", batch, from_s + 0.5)
    search_event("largest", 230, 86.0, complete=True, too_large=241)
    for n, batch in enumerate((1, 2, 4, 8, 16, 32)):
        run("sweep", "fp16", batch, 86 + n * 0.9, 5)
        search_event("sweep", batch, 86.9 + n * 0.9)
    return records


def feeding_of(subject: str) -> list[Round | Event | RewardBatch]:
    """Three comparisons of rewards, a step of each prompt, then a step a second, and one more comparison.

    30 ms a strategy, 5 ms in the pool of 8.
    """
    worker = WORKERS[subject][0]
    records: list[Round | Event | RewardBatch] = []

    def rewards(t_s: float, seconds: float, strategies: int, invalid: int, matches: bool | None) -> None:
        batch = RewardBatch(
            t_s, "feeding", worker, subject, "parallel", 8, strategies, invalid, 0, 0, 0, seconds, matches
        )
        if matches:
            records.append(
                replace(batch, t_s=t_s - 0.1, mode="sequential", processes=1, seconds=0.48, matches=None)
            )
        records.append(batch)

    for t_s in (94.0, 95.0, 96.0):
        rewards(t_s, 0.08, 16, 0, matches=True)
    data = {"tokens": 1500, "aimed_s": 0.5, "pass_s": 0.00067, "completions": 64, "overlap": True}
    records.append(Event(96.5, "generation", subject, "1500 tokens a step", "feeding", worker, data))
    for n in range(30):
        t_s = 97.5 + n * 0.5
        phase = "warmup" if n < 4 else "measure"
        records.append(
            a_round(t_s, "feeding", worker, subject, phase, 0.5, 100.0, precision="bf16", size=16384)
        )
        if phase == "measure" and n % 2:
            rewards(t_s + 0.3, 0.24, 64, 16, matches=None)
    rewards(112.7, 0.08, 16, 0, matches=True)
    return records


def sharing_of(subject: str) -> list[Round | Event]:
    """One process, two, three: each number fills 126 GiB, then works from its start for 4 s."""
    worker = WORKERS[subject][0]
    records: list[Round | Event] = []
    for start_s, (number, share) in zip((115.0, 121.0, 127.0), SHARING.items(), strict=True):
        filled = {"workers": number, "target_mib": 129_024.0, "allocated_mib": 129_024.0}
        records.append(Event(start_s, "allocation", subject, "filled", "sharing", worker, filled))
        for process in range(number):
            did: dict[str, Any] = {"precision": "bf16", "size": 1024, "processes": number, "process": process}
            work = share * RATES["bf16"] / 2 / number
            for n in range(8):
                phase = "warmup" if n < 2 else "measure"
                t_s = start_s + (n + 1) * 0.5
                records.append(a_round(t_s, "sharing", worker, subject, phase, 0.5, work, **did))
    return records


def healthy_recording(rig: dict[str, Any] | None = None, sku: str = "h200") -> Recording:
    """Two nodes, two cards, all stages; `rig` is the profile that it says it was recorded by.

    To be changed: its lists and tables are the caller's own, and so is what events hold; the records cannot
    change, and are shared.
    """
    made = _healthy(sku)
    own = copy(made)
    own.run, own.events = replace(made.run, rig=rig or {}), pickle.loads(_events(sku))
    with contextlib.suppress(ProfileError):  # a profile that plans nothing
        own.plan = recorded(
            make_plan(loaded_rig() if rig is None else LoadedRig.restore(rig, KINDS), "standard")
        )
    return own


@cache
def _events(sku: str) -> bytes:
    """Those of the recording, to be copied with what they hold, a thousand times."""
    return pickle.dumps(_healthy(sku).events)


@cache
def _healthy(sku: str) -> Recording:
    """The one that all others are copies of."""
    run = RunInfo("run", "2026-01-01T00:00:00Z", "standard", "0", "3.11", {}, STAGES_RUN)
    recording = Recording(run)
    for node in ("pc1", "pc2"):
        recording.add(node_identity(node))
        recording.extend(
            boot_reading(node, moment, t_s) for moment, t_s in (("before", 1.5), ("after", 71.5))
        )
        recording.extend(host_sample(node, index) for index in range(int(END_S / STEP_S)))
    for subject, workers in WORKERS.items():
        identity = gpu_identity(subject, sku)
        recording.add(identity)
        recording.add(ForeignMemory(1.0, subject, 3.0, ()))
        recording.add(ProcessWatch(END_S, subject, 0.5, 136, 1.1, sm_readable=True))
        for moment, t_s in (("before", 2.0), ("after", 71.5)):
            recording.add(
                GpuCounters(
                    t_s,
                    subject,
                    moment,  # type: ignore[arg-type]
                    ecc_uncorrected=0,
                    ecc_corrected=4,
                    remapped_uncorrectable=1,
                    remapped_correctable=0,
                    remap_pending=False,
                    remap_failed=False,
                    pcie_replays=2,
                    **HEALTH,
                )
            )
        recording.extend(pcie_errors(subject, t_s) for t_s in (2.0, 60.0, 120.0, END_S))
        for number, worker in enumerate(workers):
            recording.add(
                WorkerIdentity(
                    worker=worker,
                    subject=subject,
                    node=subject[:3],
                    device="cuda",
                    uuid=identity.uuid,
                    pid=100 + number,
                    t_s=4.0,
                    torch_version="2.13",
                    cuda_version="13.0",
                    precisions=tuple(RATES),
                )
            )
            recording.add(GpuProcess(3.5, subject, 100 + number, used_mib=600.0, sm_percent=0.0, **OURS))
            recording.add(GpuProcess(27.5, subject, 100 + number, used_mib=41_600.0, sm_percent=49.0, **OURS))
            recording.extend(
                MemoryReading(
                    t_s, "sustained", worker, subject, 40_000, 41_000, 41_000, 40_000, 141 * 1024, 0, 0
                )
                for t_s in (31.0, 40.0, 60.0, 69.0)
            )
            filled_mib = RIG["gpu_defaults"]["vram_share"] * 141 * 1024 / len(workers)
            filled = {"target_mib": filled_mib, "allocated_mib": filled_mib - 1, "precision": "bf16"}
            recording.add(Event(29.0, "allocation", subject, "filled", "sustained", worker, filled))
        recording.extend(gpu_sample(subject, index) for index in range(int(END_S / STEP_S)))
        recording.extend(references_of(subject))
        recording.extend(rounds_of(subject))
        recording.extend(training_of(subject))
        recording.extend(feeding_of(subject))
        recording.extend(sharing_of(subject))
    everybody = tuple(name for names in WORKERS.values() for name in names)
    first = tuple(names[0] for names in WORKERS.values())
    recording.add(Stage("gemm", 5.0, 25.0, "finished", first, 5.5, 25.0))
    recording.add(Stage("sustained", 26.0, 71.0, "finished", everybody, *LOAD_S))
    recording.add(Stage("training", 72.0, 92.0, "finished", first, 73.5, 91.5))
    recording.add(Stage("feeding", 93.0, 113.0, "finished", first, 97.5, 112.8))
    recording.add(Stage("sharing", 114.0, 134.0, "finished", first, 115.5, 133.0))
    return recording
