"""A healthy rig's Recording: the one that every test starts from and most break.

Timeline (run time, s): idle from 0; the gemm stage from 5 to 25; the sustained stage from 26 to 71, under
load from 30 to 70; the training stage from 72 to 92; the feeding stage from 93 to 113, its generation
measured from 99 to 112; the sharing stage from 114 to 134. Two nodes, one H200 each; two workers on
pc1/gpu0, one on pc2/gpu0.
"""

import contextlib
import pickle
from copy import copy
from dataclasses import replace
from functools import cache
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from rigproof.profiles.errors import ProfileError
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import recorded
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.identity import GpuIdentity, NodeIdentity, RunInfo, WorkerIdentity
from rigproof.records.measurements import BootReading, Event, ForeignMemory, GpuCounters, MemoryReading, Stage
from rigproof.records.processes import GpuProcess, ProcessWatch
from rigproof.records.recording import Recording
from rigproof.records.samples import GpuSample, HostSample, PcieErrors
from rigproof.stages.registry import KINDS
from support.rig_profile import RATES, RIG, loaded_rig
from support.stage_records import WORKERS, feeding_of, references_of, rounds_of, sharing_of, training_of

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
    busy = t_s >= 5.6  # the first round begins at 6
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
        stolen_percent=0.0,
        throttled_percent=0.0,
        crowded_percent=0.0,
        pressure_percent=2.0,
        own_percent=74.0,
    )


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
    recording.add(Stage("sharing", 114.0, 134.0, "finished", first, 115.5, 132.5))
    return recording
