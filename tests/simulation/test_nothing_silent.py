"""Faults at their defaults, in the stages where they can act: refused, or noticed on the node where they act.

docs/faults.toml has each of them in each stage, on cards that can have it. Here are the rigs of
hwprofiles: each stage is tried on two of them, other ones than the stage before it, and with every third
fault, the others than the stage before it. bench/silent_faults.py tries every fault on every device of every
rig, and that nothing is loud without a fault, which would hide a silent one.
"""

from collections import defaultdict

import pytest

from rigproof.judging.catalogue import FAULTS
from support.silent_faults import (
    ANYWHERE,
    EVERY_MODEL,
    RIGS,
    STAGES,
    faults_in,
    refused,
    silent,
    texts_of,
    together,
)

IN_TURNS = 2  # rigs of a stage
EVERY = 3  # one of so many faults is tried in a stage
SWEPT = tuple(rig for rig in RIGS if rig != EVERY_MODEL)  # its cards are many: bench/silent_faults.py has it
SHIFT = 3  # rigs that the next stage is ahead; prime to their number, so that every rig has its turn


def rigs_of(stage: str) -> list[str]:
    first = SHIFT * STAGES.index(stage)
    return [SWEPT[(first + place) % len(SWEPT)] for place in range(IN_TURNS)]


PLACES = [(stage, rig) for stage in STAGES for rig in rigs_of(stage)]


def tried(number: int, fault: str, stage: str) -> bool:
    """Whether it is this fault's turn in the stage."""
    return fault in faults_in(stage) and (stage == ANYWHERE or (number + STAGES.index(stage)) % EVERY == 0)


def in_turn(stage: str, rig: str) -> list[str]:
    """The faults whose turn it is on this rig, each on one of its devices; also those that others refuse."""
    rigs, found = rigs_of(stage), []
    for number, fault in enumerate(FAULTS):
        if not tried(number, fault, stage):
            continue
        turn = number // EVERY % IN_TURNS
        for other in rigs[turn:] + rigs[:turn]:
            texts = texts_of(fault, stage, other)
            text = texts[number % len(texts)]
            if not refused(text, stage, other):
                found += [text] if other == rig else []
                break
    return found


@pytest.mark.parametrize(("stage", "rig"), PLACES, ids=[f"{stage or 'any'} {rig}" for stage, rig in PLACES])
def test_a_fault_that_is_not_refused_is_noticed_on_its_node(stage: str, rig: str) -> None:
    runs = together(in_turn(stage, rig))
    assert [text for several in runs for text in silent(rig, stage, several)] == []


def test_every_rig_has_its_turn_and_a_fault_that_acts_everywhere_meets_several() -> None:
    met: dict[str, set[str]] = defaultdict(set)
    for stage, rig in PLACES:
        for number, fault in enumerate(FAULTS):
            if tried(number, fault, stage) and rigs_of(stage)[number // EVERY % IN_TURNS] == rig:
                met[fault].add(rig)
    everywhere = [name for name in FAULTS if all(name in faults_in(stage) for stage in STAGES[1:])]
    assert everywhere
    assert set().union(*(met[name] for name in everywhere)) == set(SWEPT)
    assert all(len(met[name]) > 1 for name in everywhere)
