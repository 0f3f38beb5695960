"""Strangers act on the simulated silicon: on its rate, its memory and its driver's list."""

import pytest

from rigproof.simulation.silicon.strangers import (
    CONTEXT_MIB,
    LEFT_MIB,
    held_mib,
    listed,
    strangers_at,
    taken_share,
)
from support.simulated import DUAL, STAGES, rig_named, simulated

GPU = "pc1/gpu0"
BEFORE_S, AFTER_S = 51.0, 55.0  # the sustained stage begins at 22 s and takes 60


def card_of(fault: str):
    rig = simulated(rig_named(DUAL), fault)
    node = rig.node("pc1")
    node.stages = STAGES
    return node, node.cards[GPU]


def test_one_that_computes_takes_its_share_of_the_rate() -> None:
    _, card = card_of(f"stranger-computes@{GPU}:by=40%")
    assert taken_share(card.faults, BEFORE_S, STAGES) == 0
    assert taken_share(card.faults, AFTER_S, STAGES) == 0.4
    ratio = card.at(AFTER_S, STAGES).speed / card.at(BEFORE_S, STAGES).speed
    assert ratio == pytest.approx(0.6, abs=0.02)


def test_one_that_takes_memory_leaves_too_little_and_takes_no_more_than_is_free() -> None:
    _, card = card_of(f"stranger-takes-memory@{GPU}")
    assert strangers_at(card.faults, BEFORE_S, STAGES) == ()
    [come] = strangers_at(card.faults, 52.5, STAGES)
    assert come.wanted_mib == CONTEXT_MIB
    grown = strangers_at(card.faults, AFTER_S, STAGES)
    assert held_mib(grown, 10_000.0) == {grown[0].pid: 10_000.0 - LEFT_MIB}
    assert held_mib(grown, 50.0) == {grown[0].pid: 0.0}


def test_the_driver_lists_ours_with_what_they_hold_and_strangers_beside_them() -> None:
    _, card = card_of(f"stranger-computes@{GPU}:by=40%")
    found = listed((10, 11), 8000.0, strangers_at(card.faults, AFTER_S, STAGES), 5000.0, loaded=True)
    assert [one.used_mib for one in found] == [4000.0, 4000.0, CONTEXT_MIB]
    assert sum(one.sm_percent or 0 for one in found) == pytest.approx(98, abs=2)


def test_one_that_crashes_leaves_its_xid_and_the_list() -> None:
    node, card = card_of(f"stranger-crashes@{GPU}")
    node.show(AFTER_S)
    assert node.driver.xids == []
    assert len(node.driver.gpu(card.uuid).processes or ()) == 1
    node.show(57.5)
    node.show(58.5)
    assert node.driver.xids == [(card.uuid, 31)]
    assert node.driver.gpu(card.uuid).processes == []


def test_a_card_that_idles_lists_processes_that_hold_memory_and_compute_nothing() -> None:
    node, card = card_of(f"gpu-idle@{GPU}:after=30")
    node.own_pids = (10, 11)
    for t_s, busy in ((AFTER_S - 10, True), (AFTER_S, False)):
        node.show(t_s)
        found = node.driver.gpu(card.uuid).processes or []
        assert [bool(one.sm_percent) for one in found] == [busy]
        assert all(one.used_mib for one in found)
