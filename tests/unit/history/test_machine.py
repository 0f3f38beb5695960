from rigproof.history.machine import machine_info
from rigproof.profiles.loading.load import over_defaults
from rigproof.stages.registry import KINDS


def test_it_names_the_rig_and_the_cards_promised_and_no_cpu():
    cards = [{"sku": "rtx-3090", "uuid": "GPU-1"}, {"sku": "unknown"}]
    rig = over_defaults({"name": "lab", "nodes": [{"name": "pc1", "gpus": cards}]}, "lab.toml", KINDS)
    assert machine_info(rig, simulated=True) == {
        "rig": "lab",
        "simulated": True,
        "devices": {
            "pc1/gpu0": {"sku": "rtx-3090", "uuid": "GPU-1"},
            "pc1/gpu1": {"sku": "unknown", "uuid": None},
        },
    }
