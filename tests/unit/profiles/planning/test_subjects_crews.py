"""Who works together, and when: every crew once, nobody twice at a time."""

from itertools import combinations
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.profiles.planning.planning import make_plan
from rigproof.profiles.planning.subjects import number_of_turns, round_robin, turns_of, without_lost
from rigproof.records.crews import Crew, CrewKind
from support.rig_profile import loaded_rig

KINDS: tuple[CrewKind, ...] = get_args(CrewKind)


def rig_of(*cards, workers=1):
    nodes = [
        {
            "name": f"pc{number}",
            "cpus": 8,
            "ram_gib": 64,
            "gpus": count * [{"sku": "h200", "workers": workers}],
        }
        for number, count in enumerate(cards, 1)
    ]
    return loaded_rig({"nodes": nodes})


def turns(kind, loaded):
    """Subject and workers of each crew, turn by turn."""
    found = turns_of(kind, loaded, make_plan(loaded, "quick").workers)
    return [[(crew.subject, crew.workers) for crew in turn] for turn in found]


def test_alone_every_worker_or_the_first_one_of_each_device_or_node():
    loaded = rig_of(2, 1, workers=2)
    assert turns("workers", loaded) == [
        [(one, (f"{one}#{number}",)) for one in ("pc1/gpu0", "pc1/gpu1", "pc2/gpu0") for number in (0, 1)]
    ]
    assert turns("devices", loaded) == [
        [(one, (f"{one}#0",)) for one in ("pc1/gpu0", "pc1/gpu1", "pc2/gpu0")]
    ]
    assert turns("nodes", loaded) == [[("pc1", ("pc1/gpu0#0",)), ("pc2", ("pc2/gpu0#0",))]]


def test_the_first_workers_of_every_two_devices_turn_by_turn():
    assert turns("pairs", rig_of(2, 1)) == [
        [("pc1/gpu1-pc2/gpu0", ("pc1/gpu1#0", "pc2/gpu0#0"))],
        [("pc1/gpu0-pc2/gpu0", ("pc1/gpu0#0", "pc2/gpu0#0"))],
        [("pc1/gpu0-pc1/gpu1", ("pc1/gpu0#0", "pc1/gpu1#0"))],
    ]


def test_two_nodes_meet_by_a_worker_of_each():
    assert turns("node_pairs", rig_of(2, 1)) == [[("pc1+pc2", ("pc1/gpu0#0", "pc2/gpu0#0"))]]


def test_each_node_meets_the_next_one_and_the_last_one_the_first():
    def ring(*cards):
        return [[subject for subject, _ in turn] for turn in turns("node_ring", rig_of(*cards))]

    assert turns("node_ring", rig_of(2, 0, 1)) == [[("pc1+pc3", ("pc1/gpu0#0", "pc3/gpu0#0"))]]
    assert ring(2) == []
    assert ring(1, 1, 1) == [["pc1+pc2"], ["pc2+pc3"], ["pc1+pc3"]]
    assert ring(1, 1, 1, 1) == [["pc1+pc2", "pc3+pc4"], ["pc2+pc3", "pc1+pc4"]]
    assert ring(*9 * [1]) == [
        ["pc1+pc2", "pc3+pc4", "pc5+pc6", "pc7+pc8"],
        ["pc2+pc3", "pc4+pc5", "pc6+pc7", "pc8+pc9"],
        ["pc1+pc9"],
    ]


def test_all_cards_of_a_kind_and_all_of_the_rig_work_at_once():
    workers = ("pc1/gpu0#0", "pc1/gpu1#0", "pc2/gpu0#0")
    assert turns("groups", rig_of(2, 1)) == [[("sku:h200", workers)]]
    assert turns("rig", rig_of(2, 1)) == [[("rig", workers)]]
    assert turns("rig", rig_of(1)) == []


def test_all_gpus_of_a_host_work_at_once_and_a_host_without_one_has_no_crew():
    workers = ("pc1/gpu0#0", "pc1/gpu1#0")
    assert turns("hosts", rig_of(2, 1, 0, workers=2)) == [[("pc1", workers), ("pc2", ("pc2/gpu0#0",))]]
    cpu = {"name": "pc1", "cpus": 8, "ram_gib": 64, "gpus": [{"sku": "unknown", "device": "cpu"}]}
    assert number_of_turns("hosts", loaded_rig({"nodes": [cpu]})) == 0


def test_only_the_gpus_of_a_host_with_several_are_neighbours():
    rig = rig_of(2, 1, 3)
    workers = [
        tuple(f"{node}/gpu{number}#0" for number in range(count)) for node, count in (("pc1", 2), ("pc3", 3))
    ]
    assert turns("neighbours", rig) == [[("pc1", workers[0]), ("pc3", workers[1])]]
    assert turns("neighbours", rig_of(1, 1)) == []


def test_a_team_is_a_node_s_devices_and_then_the_rig_s():
    both = ("pc1/gpu0#0", "pc1/gpu1#0")
    assert turns("teams", rig_of(2, 1)) == [[("pc1", both)], [("rig", (*both, "pc2/gpu0#0"))]]
    assert turns("teams", rig_of(2)) == [[("pc1", both)]]
    assert turns("teams", rig_of(1, 1)) == [[("rig", ("pc1/gpu0#0", "pc2/gpu0#0"))]]
    assert turns("teams", rig_of(1)) == []


def test_a_worker_of_each_node_is_the_network():
    assert turns("network", rig_of(2, 0, 1)) == [[("rig", ("pc1/gpu0#0", "pc3/gpu0#0"))]]
    assert turns("network", rig_of(2)) == []


def test_a_node_without_a_device_has_nobody_to_send():
    assert turns("nodes", rig_of(1, 0)) == [[("pc1", ("pc1/gpu0#0",))]]


@pytest.mark.parametrize("cards", [(1,), (2,), (1, 1), (3, 2), (4, 4), (1, 0)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_plan_knows_how_many_turns_there_will_be(kind, cards):
    loaded = rig_of(*cards)
    assert number_of_turns(kind, loaded) == len(turns(kind, loaded))


@pytest.mark.parametrize(("count", "expected"), [(0, 0), (1, 0), (2, 1), (3, 3), (4, 3), (5, 5), (8, 7)])
def test_an_even_number_meets_in_one_turn_less(count, expected):
    assert len(round_robin(count)) == expected


@given(st.integers(0, 40))
def test_every_two_meet_once_and_nobody_twice_in_a_turn(count):
    found = round_robin(count)
    met = [pair for turn in found for pair in turn]
    assert sorted(met) == list(combinations(range(count), 2))
    for turn in found:
        members = [one for pair in turn for one in pair]
        assert len(set(members)) == len(members)
        assert len(turn) == count // 2  # nobody rests who need not


@pytest.mark.parametrize(
    ("workers", "lost", "left"),
    [
        (("a/0", "a/1", "a/2"), {"a/1"}, ("a/0", "a/2")),
        (("a/0", "a/1", "a/2"), {"a/1", "a/2"}, ("a/0", "a/1", "a/2")),
        (("a/0", "a/1"), {"a/1"}, ("a/0", "a/1")),
        (("a/0", "b/0", "c/0"), {"c/0"}, ("a/0", "b/0")),
        (("a/0", "a/1", "b/0", "b/1"), {"a/0", "b/1"}, ("a/1", "b/0")),
        (("a/0", "a/1", "b/0", "b/1"), {"b/0", "b/1"}, ("a/0", "a/1", "b/0", "b/1")),
        (("a/0", "a/1"), set(), ("a/0", "a/1")),
    ],
)
def test_two_that_are_left_go_on_if_they_are_on_several_nodes_as_the_whole_crew_was(workers, lost, left):
    other = Crew("other", ("d/0", "d/1"))
    assert without_lost(lost, [(Crew("rig", workers), other)]) == ((Crew("rig", left), other),)
