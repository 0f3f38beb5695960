import json

import pytest

from rigproof.profiles.errors import ProfileError
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.planning import make_plan
from rigproof.stages.registry import KINDS


@pytest.mark.parametrize("rig", ["dual-3090-3070", "h200-x2"])
def test_a_rig_survives_the_way_through_json(rig):
    loaded = load_rig(rig, KINDS)
    back = LoadedRig.restore(json.loads(json.dumps(loaded.dump())), KINDS)
    assert back == loaded
    assert back.devices() == loaded.devices()
    assert make_plan(back, "standard") == make_plan(loaded, "standard")


def test_the_dump_reads_as_the_rig_itself():
    dumped = load_rig("dual-3090-3070", KINDS).dump()
    assert dumped["name"] == "dual-3090-3070"
    assert [node["name"] for node in dumped["nodes"]] == ["pc1", "pc2"]


@pytest.mark.parametrize(
    "broken",
    [{}, {"name": "x", "skus": {}, "sources": {}}, {"name": 3, "skus": {}, "sources": {}, "file": "x"}],
)
def test_a_damaged_recording_is_reported(broken):
    with pytest.raises(ProfileError, match="its rig is damaged at"):
        LoadedRig.restore(broken, KINDS)


def test_devices_of_both_kinds_are_counted_apart(desk):
    loaded = desk.load(
        'name = "lab"\n[[nodes]]\nname = "a"\n[[nodes.gpus]]\nsku = "l4"\n'
        '[[nodes.gpus]]\nsku = "unknown"\ndevice = "cpu"\n[[nodes.gpus]]\nsku = "t4"\n'
    )
    assert [(d.subject, d.index, d.key, d.sku_stem) for d in loaded.devices()] == [
        ("a/gpu0", 0, "nodes.a.gpus.0", "l4"),
        ("a/cpu0", 0, "nodes.a.gpus.1", None),
        ("a/gpu1", 1, "nodes.a.gpus.2", "t4"),
    ]


def test_a_nodes_cpu_table_lies_over_the_rigs(desk):
    loaded = desk.load(
        'name = "lab"\n[cpu]\nin_band_share = 0.6\n[[nodes]]\nname = "a"\n'
        'cpu.enabled = false\n[[nodes.gpus]]\nsku = "l4"\n'
    )
    assert loaded.cpu_of("a").enabled is False
    assert loaded.cpu_of("a").in_band_share == 0.6
    with pytest.raises(KeyError):
        loaded.cpu_of("b")


def test_a_command_names_a_shipped_rig_by_its_name_and_another_one_by_its_file(desk, tmp_path):
    rig = 'name = "two-pcs"\n[[nodes]]\nname = "a"\n'
    assert load_rig("h200-x2", KINDS).named == "h200-x2"
    assert load_rig(str(desk.write(rig)), KINDS).named == "./lab.toml"
    (tmp_path / "below").mkdir()
    assert desk.load(rig, "below/lab.toml").named == "below/lab.toml"
    for loaded in (load_rig("h200-x2", KINDS), desk.load(rig)):
        assert load_rig(loaded.named, KINDS).file == loaded.file
