"""A snapshot as one JSON document, for scripts. Units are in the names; null means "not known"."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rigproof.monitor.cells import reason_names
from rigproof.monitor.signs import WarningSign
from rigproof.monitor.snapshot import GpuNow, NodeNow, Snapshot

SCHEMA_VERSION = 1
OF_FACTS = ("cpus", "driver_version")
OF_HOST_SAMPLE = ("cpu_percent", "cpu_temperature_c", "load_1m", "ram_used_mib", "swap_used_mib")
OF_IDENTITY = (
    "name",
    "memory_total_mib",
    "sm_clock_max_mhz",
    "memory_clock_max_mhz",
    "pcie_generation_max",
    "pcie_width_max",
)
OF_GPU_SAMPLE = (
    "utilization_percent",
    "memory_used_mib",
    "core_temperature_c",
    "memory_temperature_c",
    "power_average_w",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "pcie_generation",
    "pcie_width",
)
OF_LIMITS = (
    "core_temperature_c",
    "core_temperature_warn_c",
    "core_temperature_never_c",
    "memory_temperature_c",
    "active_power_share",
    "active_utilization_share",
    "idle_beside_s",
    "ecc_uncorrected",
    "sample_coverage_share",
)
OF_COUNTERS = ("ecc_uncorrected", "ecc_corrected", "fan_percent")
OF_PROCESS = ("pid", "user", "name", "used_mib", "sm_percent")


def document(snapshot: Snapshot, signs: Sequence[WarningSign], *, indent: int | None = None) -> str:
    """The snapshot and its signs; on one line if `indent` is None."""
    content = {
        "schema_version": SCHEMA_VERSION,
        "at": snapshot.at,
        "rig": snapshot.rig,
        "source": snapshot.source,
        "nodes": [_node(node) for node in snapshot.nodes],
        "run": snapshot.run,
        "errors": snapshot.errors,
        "warnings": signs,
    }
    return json.dumps(content, indent=indent, allow_nan=False, default=asdict)


def _node(node: NodeNow) -> dict[str, Any]:
    return {
        **_values(node, ("name", "presence", "reason", "reading_age_s")),
        "limits": {
            "cpu_band_percent": node.cpu.band_percent if node.cpu.enabled else None,
            "cpu_warn_percent": node.cpu.warn_percent,
            "wakeup_p99_ms": node.responsiveness.p99_ms,
            "wakeup_max_ms": node.responsiveness.max_ms,
        },
        **_values(node.facts, OF_FACTS),
        **_values(node.sample, OF_HOST_SAMPLE),
        **_values(node, ("ram_total_mib", "wakeup_p99_ms", "wakeup_max_ms", "errors", "gpus_found")),
        "gpus": [_gpu(gpu) for gpu in node.gpus],
    }


def _gpu(gpu: GpuNow) -> dict[str, Any]:
    reasons, processes = gpu.sample.clock_event_reasons, gpu.processes
    return {
        **_values(gpu, ("subject", "presence", "reason", "uuid", "reading_age_s", "coverage_share")),
        "limits": {
            **_values(gpu.limits, OF_LIMITS),
            "power_w": gpu.power_limit_w,
            "headroom_mib": gpu.headroom_mib,
        },
        **_values(gpu.identity, OF_IDENTITY),
        **_values(gpu.sample, OF_GPU_SAMPLE),
        "clock_event_reasons": None if reasons is None else reason_names(reasons),
        "clock_event_reasons_mask": reasons,
        **_values(gpu.counters, OF_COUNTERS),
        **_values(gpu, ("idle_s", "work_s", "xids", "errors")),
        "processes": None if processes is None else [_values(one, OF_PROCESS) for one in processes],
    }


def _values(part: object, names: Sequence[str]) -> dict[str, Any]:
    """These fields of a part of the snapshot; null if the whole part is not known."""
    return {name: None if part is None else getattr(part, name) for name in names}
