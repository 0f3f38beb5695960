"""What a card does in a stage without a figure is held against its own work in others."""

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.works import beside_itself
from rigproof.profiles.loading.load import over_defaults
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.registry import KINDS
from support.lengths import lengths

ABSENT = {kind.name: 0 for kind in KINDS if "length_s" in kind.settings.model_fields}


def test_a_sound_card_keeps_in_its_shapes_what_its_products_let_expect():
    tables = lengths(
        "extended", settle_s=2, measure_s=2, round_s=0.5, **(ABSENT | {"sustained": 6, "shapes": 10})
    )
    node = {"name": "n1", "cpus": 32, "ram_gib": 128, "gpus": [{"sku": "h200-sxm"}]}
    loaded = over_defaults({"name": "works", **tables, "nodes": [node]}, "works.toml", KINDS)
    evidence = Evidence(simulated_recording(loaded, "extended"), loaded)
    [kept] = beside_itself(evidence.device("n1/gpu0"))
    assert (kept.stage, kept.of) == ("shapes", "its own products")
    assert 0.5 < kept.share < 1.5
