"""A calm rig as the monitor sees it, for tests that change one thing in it."""

from dataclasses import replace
from typing import Any

import pytest

from rigproof.monitor.limits import GpuLimits, NodeLimits
from rigproof.monitor.snapshot import (
    GpuNow,
    NodeNow,
    ProcessNow,
    RunDevice,
    RunNow,
    RunStage,
    RunWorker,
    Snapshot,
)
from rigproof.records.rates import Rate

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


def gpu_now(subject: str, **changes: Any) -> GpuNow:
    calm = GpuNow(
        subject=subject,
        presence="here",
        limits=GPU_LIMITS,
        uuid=f"GPU-{subject}",
        name="NVIDIA GeForce RTX 3090",
        reading_age_s=0.4,
        coverage_share=1.0,
        utilization_percent=99.0,
        memory_used_mib=17612.8,
        memory_total_mib=24576.0,
        core_temperature_c=71.0,
        memory_temperature_c=82.0,
        power_average_w=341.0,
        sm_clock_mhz=1695.0,
        sm_clock_max_mhz=2100.0,
        memory_clock_mhz=9501.0,
        memory_clock_max_mhz=9751.0,
        clock_event_reasons=0x4,
        pcie_generation=4,
        pcie_generation_max=4,
        pcie_width=16,
        pcie_width_max=16,
        ecc_uncorrected=0,
        ecc_corrected=0,
        xids=(),
        fan_percent=47.0,
        processes=(ProcessNow(5263, "ml", "python3", 17612.8, 98.0),),
    )
    return replace(calm, **changes)


def node_now(name: str, *gpus: GpuNow, **changes: Any) -> NodeNow:
    calm = NodeNow(
        name=name,
        presence="here",
        limits=NODE_LIMITS,
        cpus=80.0,
        driver_version="580.65.06",
        reading_age_s=0.4,
        cpu_percent=78.0,
        cpu_temperature_c=61.0,
        load_1m=61.25,
        ram_used_mib=40960.0,
        ram_total_mib=131072.0,
        swap_used_mib=0.0,
        wakeup_p99_ms=0.8,
        wakeup_max_ms=2.1,
        gpus_found=len(gpus),
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
