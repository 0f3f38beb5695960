"""A calm rig as the monitor sees it, for tests that change one thing in it."""

from dataclasses import fields, replace
from typing import Any

import pytest

from rigproof.cluster.actors.messages import AgentFacts
from rigproof.host.processes import ProcessId
from rigproof.monitor.limits import GpuLimits, NodeLimits
from rigproof.monitor.snapshot import GpuNow, NodeNow, RunDevice, RunNow, RunStage, RunWorker, Snapshot
from rigproof.records.measurements import GpuCounters
from rigproof.records.processes import GpuProcess
from rigproof.records.rates import Rate
from rigproof.records.samples import GpuSample, HostSample
from support.recordings import gpu_identity

GPU_LIMITS = GpuLimits(
    core_temperature_c=80.0,
    core_temperature_warn_c=78.0,
    core_temperature_never_c=83.0,
    memory_temperature_c=95.0,
    power_w=350.0,
    active_power_share=0.3,
    active_utilization_share=0.8,
    idle_beside_s=20.0,
    headroom_mib=512.0,
    ecc_uncorrected=0,
    sample_coverage_share=0.8,
)
NODE_LIMITS = NodeLimits((70.0, 85.0), 90.0, 50.0, 250.0)


CARD = replace(
    gpu_identity("pc1/gpu0", "rtx-3090"),
    name="NVIDIA GeForce RTX 3090",
    memory_total_mib=24576.0,
    sm_clock_max_mhz=2100.0,
    memory_clock_max_mhz=9751.0,
)
FACTS = AgentFacts(
    process=ProcessId(1, 1),
    hostname="pc1",
    cpus=80.0,
    ram_gib=64.0,
    os="Linux",
    python_version="3.11",
    ray_version="2.60",
    rigproof_version="0",
    torch_version=None,
    driver_version="580.65.06",
    nvml_error=None,
    gpus=(CARD,),
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
        limits=GPU_LIMITS,
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
        limits=NODE_LIMITS,
        sample=changed(HOST, changes),
        facts=replace(FACTS, gpus=found),
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
