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


def test_no_readings_are_null():
    snapshot = snapshot_of(node_now("pc1", gpu_now("pc1/gpu0", clock_event_reasons=None, xids=None)))
    (shown,) = json.loads(document(snapshot, [], indent=2))["nodes"][0]["gpus"]
    assert (shown["clock_event_reasons"], shown["clock_event_reasons_mask"], shown["xids"]) == (
        None,
        None,
        None,
    )
