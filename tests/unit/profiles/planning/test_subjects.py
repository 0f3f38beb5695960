"""What a rig promises to be judged: every subject has a text of its own, whatever its nodes are called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.profiles.planning.subjects import subjects
from support.rig_profile import RIG, loaded_rig

SCOPES = ("node", "device", "pair", "node_pair", "group", "rig")  # peers are pairs, teams nodes or the rig
# As the profile's tables allow them, with as many dashes as can be: only the shortest alphabet collides.
NAMES = st.lists(st.from_regex(r"[ag0][ag0.-]{0,4}", fullmatch=True), min_size=1, max_size=5, unique=True)


def rig_of(nodes):
    """Nodes by name, with so many H200 each."""
    return loaded_rig(
        {
            "nodes": [
                {"name": name, "cpus": 8, "ram_gib": 64, "gpus": count * [{"sku": "h200"}]}
                for name, count in nodes
            ]
        }
    )


def texts(loaded, scope):
    return [one.text for one in subjects(loaded, scope)]


def test_each_kind_of_subject_in_the_profile_s_order():
    loaded = rig_of([("pc1", 2), ("bare", 0), ("pc2", 1)])
    assert texts(loaded, "node") == ["pc1", "bare", "pc2"]
    assert texts(loaded, "device") == ["pc1/gpu0", "pc1/gpu1", "pc2/gpu0"]
    assert texts(loaded, "pair") == ["pc1/gpu0-pc1/gpu1", "pc1/gpu0-pc2/gpu0", "pc1/gpu1-pc2/gpu0"]
    assert texts(loaded, "node_pair") == ["pc1+pc2"]  # nobody could work on the third
    assert texts(loaded, "node_ring") == ["pc1+pc2"]
    assert texts(loaded, "group") == ["sku:h200"]
    assert texts(loaded, "rig") == ["rig"]
    assert texts(loaded, "peers") == ["pc1/gpu0-pc1/gpu1"]
    assert texts(loaded, "team") == ["pc1", "rig"]
    assert subjects(loaded, "team")[0].members == ("pc1/gpu0", "pc1/gpu1")
    (group,) = subjects(loaded, "group")
    assert group.members == ("pc1/gpu0", "pc1/gpu1", "pc2/gpu0")
    assert subjects(loaded, "pair")[1].members == ("pc1/gpu0", "pc2/gpu0")


def test_a_single_card_has_nobody_to_be_compared_or_to_work_with():
    loaded = rig_of([("pc1", 1)])
    for scope in ("pair", "peers", "node_pair", "node_ring", "group", "team"):
        assert texts(loaded, scope) == []


def test_cards_of_no_sku_are_no_group():
    node = RIG["nodes"][0] | {"gpus": 2 * [{"sku": "unknown"}]}
    assert texts(loaded_rig({"nodes": [node]}), "group") == []


@pytest.mark.parametrize(
    ("names", "pairs"),
    [
        (("a-b", "c"), "a-b/gpu0-c/gpu0"),
        (("a", "b-c"), "a/gpu0-b-c/gpu0"),
        (("x", "gpu0-x"), "x/gpu0-gpu0-x/gpu0"),
    ],
)
def test_a_name_with_dashes_is_a_member_as_a_whole(names, pairs):
    (pair,) = subjects(rig_of([(name, 1) for name in names]), "pair")
    assert (pair.text, pair.members) == (pairs, tuple(f"{name}/gpu0" for name in names))


@given(NAMES, st.integers(0, 2))
def test_no_two_subjects_are_called_the_same(names, cards):
    loaded = rig_of([(name, cards) for name in names])
    found = [text for scope in SCOPES for text in texts(loaded, scope)]
    assert len(set(found)) == len(found)
