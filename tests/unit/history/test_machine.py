from rigproof.history.machine import machine_info
from rigproof.profiles.loading.load import over_defaults
from rigproof.stages.registry import KINDS


def test_a_recording_names_the_cards_found_and_no_cpu(recording):
    assert machine_info(recording) == {
        "rig": "lab",
        "simulated": False,
        "devices": {
            "pc1/gpu0": {
                "name": "NVIDIA H200",
                "sku": "h200-sxm",
                "uuid": "GPU-11111111-2222-3333-4444-555555555555",
            }
        },
    }


def test_a_profile_names_the_cards_promised():
    cards = [{"sku": "rtx-3090", "uuid": "GPU-1"}, {"sku": "unknown"}]
    rig = over_defaults({"name": "lab", "nodes": [{"name": "pc1", "gpus": cards}]}, "lab.toml", KINDS)
    assert machine_info(rig) == {
        "rig": "lab",
        "simulated": False,
        "devices": {
            "pc1/gpu0": {"sku": "rtx-3090", "uuid": "GPU-1"},
            "pc1/gpu1": {"sku": "unknown", "uuid": None},
        },
    }
