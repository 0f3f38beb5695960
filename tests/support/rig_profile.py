"""The profile of the healthy rig: two nodes, one H200 each. A test changes what it is about."""

import tomllib
from typing import Any

import tomlkit

from rigproof.profiles.kinds.models import models_of
from rigproof.profiles.loading.files import profile_folder
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.levels import LEVELS
from rigproof.stages.registry import KINDS

DEFAULTS = tomllib.loads((profile_folder() / "defaults.toml").read_text(encoding="utf-8"))
MEMORY = DEFAULTS["memory"]
# Those of the defaults, but for what the canned run does not do: measure again, and look for room first.
LIMITS = {
    key: value
    for key, value in DEFAULTS["limits"].items()
    if key != "marginal_share" and not key.startswith("run_")
}
# At every level, the lengths of the canned recording's stages; others, of which it knows nothing, have none.
LENGTHS = {
    "gemm": {"settle_s": 8, "measure_s": 2},
    "sustained": {"length_s": 15, "settle_s": 8},
    "training": {"length_s": 20},
    "feeding": {"length_s": 20},
    "sharing": {"length_s": 20},
}
CANNED = frozenset(LENGTHS)
STAGES: dict[str, dict[str, Any]] = {
    name: table
    | {key: dict.fromkeys(LEVELS, length_s) for key, length_s in LENGTHS.get(name, {"length_s": 0}).items()}
    for name, table in DEFAULTS["stages"].items()
}
STAGES["sustained"]["combined_floor_tflops"] = 1100.0
del STAGES["sustained"]["best_window_share"], STAGES["feeding"]["own_share"]  # it would be refused by them
RIG = {
    "name": "two-nodes",
    "limits": LIMITS,
    "gpu_defaults": DEFAULTS["gpu_defaults"] | {"gemm_size": 1024, "cpu_gemm_size": 512},
    "cpu": DEFAULTS["cpu"],
    "responsiveness": DEFAULTS["responsiveness"],
    "memory": MEMORY,
    "stages": STAGES,
    "sampling": {"rate_hz": 10},
    "timeouts": DEFAULTS["timeouts"],
    "levels": DEFAULTS["levels"] | {"round_s": dict.fromkeys(LEVELS, 0.05), "soak_s": 45},
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
