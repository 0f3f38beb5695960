"""A calm rig as the monitor sees it, for tests that change one thing in it."""

from dataclasses import fields, replace
from typing import Any

import pytest

from rigproof.monitor.snapshot import GpuNow, NodeNow, RunDevice, RunNow, RunStage, RunWorker, Snapshot
from rigproof.records.measurements import GpuCounters, Rate
from rigproof.records.processes import GpuProcess
from rigproof.records.samples import GpuSample, HostSample
from support.driven_agents import facts
from support.recordings import gpu_identity
from support.rig_profile import LIMITS, loaded_rig

RIG = loaded_rig(
    {
        "limits": LIMITS
        | {
            "core_temperature_c": 80,
            "core_temperature_warn_c": 78,
            "core_temperature_never_c": 83,
            "memory_temperature_c": 95,
        }
    }
)
CARD = replace(
    gpu_identity("pc1/gpu0", "rtx-3090"),
    name="NVIDIA GeForce RTX 3090",
    memory_total_mib=24576.0,
    power_limit_w=350.0,
    sm_clock_max_mhz=2100.0,
    memory_clock_max_mhz=9751.0,
)
AT_WORK = GpuSample(
    0.0,
    "pc1/gpu0",
    utilization_percent=99.0,
    memory_used_mib=17612.8,
    core_temperature_c=71.0,
    memory_temperature_c=82.0,
    power_average_w=341.0,
    sm_clock_mhz=1695.0,
    memory_clock_mhz=9501.0,
    clock_event_reasons=0x4,
    pcie_generation=4,
    pcie_width=16,
)
HOST = HostSample(
    0.0,
    "pc1",
    cpu_percent=78.0,
    cpu_temperature_c=61.0,
    load_1m=61.25,
    ram_used_mib=40960.0,
    ram_available_mib=90112.0,
    swap_used_mib=0.0,
)


def changed(part: Any, changes: dict[str, Any]) -> Any:
    """The part with those of the changes that it has a field for, which are taken out of `changes`."""
    names = {field.name for field in fields(part)} & changes.keys()
    return replace(part, **{name: changes.pop(name) for name in names})


def gpu_now(subject: str, **changes: Any) -> GpuNow:
    calm = GpuNow(
        subject=subject,
        presence="here",
        limits=RIG.devices()[0].limits,
        sample=changed(AT_WORK, changes),
        counters=changed(GpuCounters(0.0, subject, "after", 0, 0, fan_percent=47.0), changes),
        identity=CARD if "identity" in changes else changed(CARD, changes),
        uuid=f"GPU-{subject}",
        reading_age_s=0.4,
        coverage_share=1.0,
        xids=(),
        processes=(GpuProcess(0.0, subject, 5263, False, False, 17612.8, 98.0, "ml", "python3"),),
    )
    return replace(calm, **changes)


def node_now(name: str, *gpus: GpuNow, **changes: Any) -> NodeNow:
    found = (CARD,) * changes.pop("gpus_found", len(gpus))
    calm = NodeNow(
        name=name,
        presence="here",
        cpu=RIG.cpu_of("pc1"),
        responsiveness=RIG.rig.responsiveness,
        sample=changed(HOST, changes),
        facts=replace(facts(), gpus=found),
        reading_age_s=0.4,
        wakeup_p99_ms=0.8,
        wakeup_max_ms=2.1,
        gpus=gpus,
    )
    return replace(calm, **changes)


def run_device(subject: str, **changes: Any) -> RunDevice:
    workers = (RunWorker(f"{subject}#0", "working"),)
    return replace(
        RunDevice(subject, "cuda", f"GPU-{subject}", Rate(51.2, "TFLOP/s"), 0.5, 0, workers), **changes
    )


def run_now(*devices: RunDevice, **changes: Any) -> RunNow:
    stage = RunStage("sustained", 42.0, 110.0)
    calm = RunNow("20260102T030405Z-lab-a1b2c3", "standard", False, 70.0, 1.0, stage, devices, 0, 0, (), ())
    return replace(calm, **changes)


def snapshot_of(*nodes: NodeNow, **changes: Any) -> Snapshot:
    return replace(Snapshot("2026-01-02T03:04:05Z", "dual-3090-3070", "this machine", nodes), **changes)


@pytest.fixture
def calm() -> Snapshot:
    """Two nodes with a GPU each, both at work in a run."""
    nodes = (node_now("pc1", gpu_now("pc1/gpu0")), node_now("pc2", gpu_now("pc2/gpu0")))
    return snapshot_of(*nodes, run=run_now(run_device("pc1/gpu0"), run_device("pc2/gpu0")))
