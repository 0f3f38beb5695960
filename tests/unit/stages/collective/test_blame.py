"""Each fault of simulated teams is found and told from others; one wrong result blames nobody."""

import math

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from rigproof.stages.collective.blame import next_step
from rigproof.stages.collective.results import Culprit, Trial
from support.blamed_teams import (
    LARGE,
    PAGE,
    PLANNED,
    but,
    cases,
    gpu,
    link,
    node,
    page,
    port,
    searched,
    switch,
    team,
)

SMALL = team(5, 4)
NAMES = {
    "nothing": set(),
    "a GPU": {("gpu", "n37/gpu3")},
    "what joins two GPUs of a node": {("link", "n10/gpu6 and n10/gpu1")},
    "a node": {("node", "n55")},
    "one GPU's way out of its node": {("port", "n55/gpu2")},
    "what joins two nodes": {("link", "n77 and n10")},
    "the switch of 16 nodes": {("switch", "n32 … n47 (16) from the rest")},
    "a GPU, two nodes' link and a switch at once": {
        ("gpu", "n37/gpu3"),
        ("link", "n10 and n77"),
        ("switch", "n32 … n47 (16) from the rest"),
    },
}


@pytest.mark.parametrize("words", NAMES)
def test_each_fault_of_a_large_rig_is_found_and_told_from_the_others(words):
    faults = cases()[words]
    found = searched(team(*LARGE), faults)
    assert found.named == NAMES[words]
    if not faults:
        assert found.rounds == PLANNED <= 3
    bound = math.isqrt(LARGE[0]) + 8 * len(faults) * math.log2(LARGE[0])
    assert found.tests - LARGE[0] - 1 <= bound


def test_the_page_has_the_table_as_it_is():
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "write it anew: PYTHONPATH=.:tests python bench/who_is_to_blame.py"


@pytest.mark.parametrize(
    ("nodes", "gpus", "faults", "named"),
    [
        (1, 8, [gpu("n0/gpu5")], {("gpu", "n0/gpu5")}),
        (1, 8, [gpu("n0/gpu0"), gpu("n0/gpu7")], {("gpu", "n0/gpu0"), ("gpu", "n0/gpu7")}),
        (1, 4, [Culprit("link", ("n0/gpu1",), ("n0/gpu2",))], {("link", "n0/gpu1 and n0/gpu2")}),
        (1, 3, [gpu("n0/gpu1")], {("gpu", "n0/gpu1")}),
        (2, 2, [gpu("n1/gpu1")], {("gpu", "n1/gpu1")}),
        (2, 2, [Culprit("link", ("n1/gpu0",), ("n1/gpu1",))], {("link", "n1/gpu0 and n1/gpu1")}),
        (3, 1, [gpu("n2/gpu0")], {("node", "n2")}),
        (3, 8, [node(team(3, 8), 1)], {("node", "n1")}),
        (3, 8, [port(team(3, 8), "n1/gpu6")], {("port", "n1/gpu6")}),
        (4, 2, [link(team(4, 2), 0, 3)], {("link", "n0 and n3")}),
        (4, 1, [switch(team(4, 1), [2, 3])], {("switch", "n0, n1 from the rest")}),
        (1, 8, [Culprit("all", team(1, 8))], {("all", "n0/gpu0 … n0/gpu7 (8)")}),
        (8, 2, [Culprit("all", team(8, 2))], {("all", "n0 … n7 (8)")}),
    ],
)
def test_a_fault_of_a_small_rig_is_found(nodes, gpus, faults, named):
    if faults[0].kind == "all" and nodes > 1:  # each two nodes; inside they are fine
        assert searched(team(nodes, gpus), faults).rounds < 12
    found = searched(team(nodes, gpus), faults)
    assert found.named == named
    assert all(one.why for one in found.culprits)


@pytest.mark.parametrize(
    ("gpus", "own"), [(1, "its GPU, network card, cable, settings"), (2, "its network card, cable, settings")]
)
def test_of_a_node_with_one_gpu_that_may_be_what_is_wrong_with_it(gpus, own):
    devices = team(3, gpus)
    (found,) = searched(devices, [node(devices, 1)]).culprits
    assert (found.kind, found.why) == ("node", f"it fails with each other node: {own}")


@pytest.mark.parametrize(("nodes", "gpus"), [(1, 2), (2, 1)])
def test_of_two_that_are_fine_alone_nobody_can_tell_which(nodes, gpus):
    (found,) = searched(team(nodes, gpus), [gpu("n0/gpu0")]).culprits
    assert (found.kind, found.one) == ("unknown", team(nodes, gpus))
    assert found.why == "nobody else is fine, to test them with"


@pytest.mark.parametrize(("nodes", "gpus"), [(1, 2), (2, 1), (1, 8), (5, 1), (5, 4)])
def test_a_device_that_fails_alone_needs_no_partner(nodes, gpus):
    (name,) = team(nodes, gpus)[-1:]
    found = searched(team(nodes, gpus), [gpu(name)], alone=True)
    ((kind, subject, why),) = ((one.kind, one.subject, one.why) for one in found.culprits)
    assert (kind, subject, why) == ("gpu", name, "it fails alone")
    assert found.rounds <= PLANNED + 4  # each alone, and it once more; the others of its node, and of all


@pytest.mark.parametrize("again", ["fine", "unknown"])
def test_who_fails_alone_once_is_not_blamed_for_it(again):
    devices = team(1, 2)
    first, other = ((one,) for one in devices)
    results = [Trial(devices, "wrong"), Trial(first, "wrong"), Trial(other, "fine")]
    assert next_step(devices, results).groups == (first,)
    results += [Trial(first, again), Trial(first, again)]
    assert [one.kind for one in next_step(devices, results).culprits] == ["unknown"]


def test_whom_the_others_waited_for_is_looked_at_first_and_not_believed():
    devices, bad = team(16, 4), "n9/gpu2"
    found = searched(devices, [gpu(bad)], hints=lambda group: (bad,) if bad in group else ())
    assert found.named == {("gpu", bad)}
    misled = searched(devices, [gpu(bad)], hints=lambda group: ("n9/gpu0",) if bad in group else ())
    assert misled.named == {("gpu", bad)}
    assert found.rounds <= searched(devices, [gpu(bad)]).rounds


def test_a_group_that_could_not_be_tested_is_asked_for_once_more():
    devices = team(1, 4)
    assert next_step(devices, []).groups == (devices,)
    lost = [Trial(devices, "unknown")]
    assert next_step(devices, lost).groups == (devices,)
    assert next_step(devices, [*lost, Trial(devices, "fine")]).culprits == ()
    again = next_step(devices, [*lost, Trial(devices, "slow")]).groups
    assert again == tuple((one,) for one in devices)
    alone = [Trial(group, "fine") for group in again]
    assert next_step(devices, [Trial(devices, "slow"), *alone]).groups == (devices[:2], devices[2:])


def test_a_group_that_says_nothing_is_asked_for_twice_and_takes_no_name_away():
    """As of three H200: the SKU file has figures of two and of four."""
    devices, bad = team(1, 4), "n0/gpu2"
    results = [Trial(devices, "slow")]
    while (step := next_step(devices, results)).groups:
        for group in step.groups:
            known = "slow" if bad in group and len(group) > 1 else "fine"
            results.append(Trial(group, "unknown" if len(group) == 3 else known))
    assert [one.subject for one in step.culprits] == [bad]
    assert [one.members for one in results].count(but(devices, (bad,))) == 2


def test_what_can_never_be_tested_ends_the_search():
    devices, results = team(2, 2), []
    for _ in range(200):
        step = next_step(devices, results)
        if not step.groups:
            break
        results += [Trial(group, "unknown") for group in step.groups]
    assert not step.groups
    assert not [one for one in step.culprits if one.kind != "unknown"]


def test_that_all_nodes_are_no_slower_together_says_nothing_of_the_inside_of_one():
    """The LAN between them hides a slow link in one."""
    devices, fault = team(4, 4), gpu("n1/gpu2")
    results: list[Trial] = []
    while (step := next_step(devices, results)).groups:
        for group in step.groups:
            inside = len({one.partition("/")[0] for one in group}) == 1
            results.append(Trial(group, "slow" if inside and fault.shows_in(group) else "fine"))
    assert [(one.kind, one.one) for one in step.culprits] == [("gpu", fault.one)]


def test_a_search_that_takes_too_long_says_what_it_knows():
    devices = team(16, 4)
    faults = [gpu("n3/gpu1"), link(devices, 5, 11)]
    results: list[Trial] = []
    while (step := next_step(devices, results, rounds=14)).groups:
        results += [
            Trial(group, "slow" if any(one.shows_in(group) for one in faults) else "fine")
            for group in step.groups
        ]
    assert [one.kind for one in step.culprits] == ["gpu", "unknown"]
    assert step.culprits[1].why == "the search was given up after 14 rounds"


def test_what_fails_once_and_not_again_is_nobodys_fault():
    found = searched(SMALL, wrong=5)  # all of them, after the five nodes
    (only,) = found.culprits
    assert only.kind == "unknown"
    assert only.why == ("results contradict each other: together they failed once, and nothing explains that")


@st.composite
def troubled(draw, most=2):
    """A team with some faults, at most two, none of them about the same node."""
    nodes, gpus = draw(st.integers(5, 14)), draw(st.sampled_from([1, 2, 3, 4, 8]))
    devices, free = team(nodes, gpus), draw(st.permutations(range(nodes)))
    faults = []
    for _ in range(draw(st.integers(0, most))):
        first, second, *free = free
        own = st.integers(0, gpus - 1).map(lambda number, first=first: f"n{first}/gpu{number}")
        kinds = [st.just(node(devices, first)), st.just(link(devices, first, second)), own.map(gpu)]
        if gpus > 1:
            kinds.append(own.map(lambda name: port(devices, name)))
        if gpus > 2:
            ends = st.lists(own, min_size=2, max_size=2, unique=True)
            kinds.append(ends.map(lambda pair: Culprit("link", (pair[0],), (pair[1],))))
        if not faults:
            some = st.lists(st.sampled_from(range(nodes)), min_size=2, max_size=nodes // 2, unique=True)
            kinds.append(some.map(lambda chosen: switch(devices, chosen)))
        faults.append(draw(st.one_of(kinds)))
        if faults[-1].kind == "switch":
            break
    return devices, faults


def is_real(named, fault) -> bool:
    """Whether a name is a fault's; of a node with one GPU nobody can tell which of the two it is."""
    if {named.kind, fault.kind} <= {"gpu", "port", "node"}:
        return named.one == fault.one
    sides = {frozenset(named.one), frozenset(named.other)}
    return named.kind == fault.kind and bool(sides & {frozenset(fault.one), frozenset(fault.other)})


@given(troubled(most=1), st.booleans())
@settings(max_examples=60, deadline=None)
def test_one_fault_is_always_found_by_its_name(made, alone):
    devices, faults = made
    found = searched(devices, faults, alone=alone)
    assert len(found.culprits) == len(faults)
    assert all(is_real(*pair) for pair in zip(found.culprits, faults, strict=True))
    nodes = len({one.partition("/")[0] for one in devices})
    each = len(devices) // nodes
    size = max(nodes, each)
    # The nodes behind a switch may be scattered: each of them is then split from its neighbours.
    weight = sum(len(one.one) // each if one.kind == "switch" else 1 for one in faults)
    assert found.tests - nodes - 1 <= math.isqrt(size) + 12 * weight * math.log2(size) + each


@given(troubled(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_nobody_is_blamed_who_is_healthy(made, alone):
    devices, faults = made
    for named in searched(devices, faults, alone=alone).culprits:
        assert named.kind == "unknown" or any(is_real(named, fault) for fault in faults)


@given(troubled(), st.integers(0, 60), st.booleans())
@settings(max_examples=100, deadline=None)
@example((SMALL, [gpu("n0/gpu3")]), 5, False)
@example((team(9, 1), [switch(team(9, 1), [3, 4, 5, 8])]), 14, False)
@example((team(6, 3), [switch(team(6, 3), [0, 2])]), 1, False)  # who seems bad is between two that are not
def test_one_wrong_result_blames_nobody_who_is_healthy(made, wrong, alone):
    devices, faults = made
    found = searched(devices, faults, alone=alone, wrong=wrong)
    assume(found.flipped)
    for named in found.culprits:
        assert named.kind == "unknown" or any(is_real(named, fault) for fault in faults)
