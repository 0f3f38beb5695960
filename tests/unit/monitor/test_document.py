"""The document that scripts read."""

import json

from rigproof.monitor.document import document
from rigproof.monitor.signs import warning_signs

from .conftest import gpu_now, node_now, run_device, run_now, snapshot_of


def test_it_holds_the_snapshot_and_its_signs():
    gpu = gpu_now("pc1/gpu0", core_temperature_c=82.0, clock_event_reasons=0x204, memory_temperature_c=None)
    snapshot = snapshot_of(node_now("pc1", gpu), run=run_now(run_device("pc1/gpu0")))
    text = document(snapshot, warning_signs(snapshot))
    assert "\n" not in text
    assert text.isascii()
    found = json.loads(text)
    assert list(found) == ["schema_version", "at", "rig", "source", "nodes", "run", "errors", "warnings"]
    (node,) = found["nodes"]
    assert node["limits"]["cpu_band_percent"] == [70, 85]
    (shown,) = node["gpus"]
    assert (shown["core_temperature_c"], shown["memory_temperature_c"]) == (82, None)
    assert (shown["clock_event_reasons"], shown["clock_event_reasons_mask"]) == (
        ["power cap", "0x200"],
        0x204,
    )
    assert found["run"]["devices"][0]["workers"] == [{"worker": "pc1/gpu0#0", "state": "working"}]
    assert found["warnings"] == [
        {
            "kind": "core_temperature",
            "subject": "pc1/gpu0",
            "text": "core at 82 °C, limit ≤ 80 °C",
            "measured": 82,
            "limit": 80,
            "direction": "at_most",
            "unit": "°C",
        }
    ]


NODE = """
    name presence limits reason cpus driver_version reading_age_s cpu_percent cpu_temperature_c load_1m
    ram_used_mib ram_total_mib swap_used_mib wakeup_p99_ms wakeup_max_ms errors gpus_found gpus
"""
GPU = """
    subject presence limits reason uuid name reading_age_s coverage_share utilization_percent memory_used_mib
    memory_total_mib core_temperature_c memory_temperature_c power_average_w idle_s work_s sm_clock_mhz
    sm_clock_max_mhz memory_clock_mhz memory_clock_max_mhz clock_event_reasons clock_event_reasons_mask
    pcie_generation pcie_generation_max pcie_width pcie_width_max ecc_uncorrected ecc_corrected xids
    fan_percent processes errors
"""


def test_scripts_find_every_value_under_its_name():
    snapshot = snapshot_of(node_now("pc1", gpu_now("pc1/gpu0")))
    (node,) = json.loads(document(snapshot, []))["nodes"]
    assert node.keys() == set(NODE.split())
    (gpu,) = node["gpus"]
    assert gpu.keys() == set(GPU.split())
    assert (node["cpus"], node["gpus_found"], node["cpu_percent"], node["ram_total_mib"]) == (
        *(8, 1, 78.0, 131072.0),
    )
    assert (gpu["name"], gpu["pcie_width_max"], gpu["fan_percent"]) == ("NVIDIA GeForce RTX 3090", 16, 47.0)
    assert gpu["processes"] == [
        {"pid": 5263, "user": "ml", "name": "python3", "used_mib": 17612.8, "sm_percent": 98.0}
    ]


def test_what_is_not_known_is_null():
    gpu = gpu_now("pc1/gpu0", clock_event_reasons=None, xids=None, identity=None, processes=None)
    (node,) = json.loads(document(snapshot_of(node_now("pc1", gpu, facts=None)), [], indent=2))["nodes"]
    assert (node["cpus"], node["gpus_found"]) == (None, None)
    (shown,) = node["gpus"]
    for name in ("clock_event_reasons", "clock_event_reasons_mask", "xids", "name", "processes"):
        assert shown[name] is None
