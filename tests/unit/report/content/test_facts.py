from dataclasses import replace

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
