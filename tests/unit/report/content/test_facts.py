from dataclasses import replace

from rigproof.records.measurements import Event, GpuCounters
from rigproof.report.content.facts import run_facts


def test_promised_and_found_are_told_apart(recording):
    del recording.gpus["pc1/gpu1"]
    facts = run_facts(recording)
    assert facts.rig == "lab"
    (node,) = facts.nodes
    assert node.band_percent == (70, 85)
    assert [(device.subject, device.identity is not None) for device in node.devices] == [
        ("pc1/gpu0", True),
        ("pc1/gpu1", False),
    ]
    assert node.devices[0].label == "pc1/gpu0 NVIDIA GeForce RTX 3090"
    assert node.devices[1].label == "pc1/gpu1 rtx-3070 not found"


def test_a_node_that_did_not_answer_is_listed_with_its_devices(recording):
    recording.nodes.clear()
    recording.gpus.clear()
    content = run_facts(recording).as_json()
    assert content["nodes"][0]["found"] is False
    assert content["nodes"][0]["gpus"] == [
        {"subject": "pc1/gpu0", "found": False, "sku": "rtx-3090"},
        {"subject": "pc1/gpu1", "found": False, "sku": "rtx-3070"},
    ]


def test_a_damaged_profile_leaves_what_was_found(recording):
    recording.run = replace(recording.run, rig={"name": "lab", "nodes": 7})
    facts = run_facts(recording)
    assert facts.rig == "lab"
    assert [device.subject for device in facts.devices] == ["pc1/gpu0", "pc1/gpu1"]
    recording.run = replace(recording.run, rig={})
    assert run_facts(recording).rig == "unknown"


def test_what_was_found_beside_the_promise_is_listed_too(recording):
    recording.add(replace(recording.gpus["pc1/gpu0"], subject="pc1/gpu7", uuid="GPU-7"))
    assert [device.subject for device in run_facts(recording).devices][-1] == "pc1/gpu7"


def test_new_memory_errors_and_lost_workers_are_counted_by_card(recording):
    first, second = "pc1/gpu0", "pc1/gpu1"
    for subject, counts in ((first, (("before", 3, 7), ("after", 5, 7))), (second, (("before", 3, None),))):
        for moment, uncorrected, corrected in counts:
            recording.add(GpuCounters(1.0, subject, moment, uncorrected, corrected))
    others = {"disturbed": "find who ends processes"}
    for data in ({}, {}, others):
        message = "its process ended"
        recording.add(Event(30.0, "worker_died", second, message, "gemm", f"{second}#0", data))
    recording.add(Event(31.0, "agent_died", "pc1", "its process ended"))
    (node,) = run_facts(recording).as_json()["nodes"]
    keys = ("ecc_uncorrected", "ecc_corrected", "lost_workers")
    assert [[gpu.get(key) for key in keys] for gpu in node["gpus"]] == [[2, None, None], [None, None, 2]]


def test_counters_that_were_reset_count_nothing(recording):
    for moment, number in (("before", 9), ("after", 1)):
        recording.add(GpuCounters(1.0, "pc1/gpu0", moment, number, 0))
    (node,) = run_facts(recording).as_json()["nodes"]
    assert "ecc_uncorrected" not in node["gpus"][0]
