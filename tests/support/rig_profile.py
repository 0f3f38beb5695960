"""The profile of the healthy rig: two nodes, one H200 each. A test changes what it is about."""

import tomllib
from typing import Any

import tomlkit

from rigproof.profiles.kinds.models import models_of
from rigproof.profiles.loading.files import profile_folder
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.levels import LEVELS
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
    "idle_beside_s": 20,
    "stability_worst_window_share": 0.85,
    "best_quarter_share": 0.70,
    "slow_fifth_share": 0.60,
    "pause_s": 1.5,
    "standstill_share": 0.05,
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
    "gpu_memory_share": 0.92,
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
        "precision_share": 0.50,
        "host_paced_share": 0.70,
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
        "false_alarm_share": 0.01,
        "stolen_warn_percent": 5,
        "starved_percent": 10,
        "primary_thread_share": 0.7,
        "secondary_thread_share": 0.15,
    },
    "responsiveness": {"p99_ms": 50, "max_ms": 250},
    "memory": MEMORY,
    "stages": STAGES,
    "sampling": {"rate_hz": 10},
    "timeouts": {"task_s": 60, "stall_s": 30, "start_s": 60, "stop_s": 10},
    "levels": {
        "round_s": dict.fromkeys(LEVELS, 0.05),
        "least_share": 0.9,
        "least_work_share": 0.5,
        "soak_s": 45,
    },
    "nodes": [
        {"name": "pc1", "cpus": 8, "ram_gib": 192, "gpus": [{"sku": "h200", "workers": 2}]},
        {"name": "pc2", "cpus": 8, "ram_gib": 192, "gpus": [{"sku": "h200", "workers": 1}]},
    ],
}


# A SKU file that is shipped, for runs that read their profile from a file.
SHIPPED_SKU = "h200-sxm"


RATES = {"fp32": 50.0, "tf32": 350.0, "fp16": 680.0, "bf16": 660.0, "fp8": 1250.0}
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
