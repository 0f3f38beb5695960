"""Each fault, at its defaults, in each stage: refused, or noticed on the node where it acts.

Each stage is tried on a few rigs, other ones than the stage before it, and its faults take turns on them, so
that a fault that can act in all stages meets all rigs. bench/silent_faults.py tries every fault on every
device of every rig, and that nothing is loud without a fault, which would hide a silent one.
"""

from collections import defaultdict

import pytest

from rigproof.judging.catalogue import FAULTS
from support.silent_faults import (
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
SWEPT = tuple(rig for rig in RIGS if rig != EVERY_MODEL)  # its cards are many: bench/silent_faults.py has it
SHIFT = 3  # rigs that the next stage is ahead; prime to their number, so that every rig has its turn


def rigs_of(stage: str) -> list[str]:
    first = SHIFT * STAGES.index(stage)
    return [SWEPT[(first + place) % len(SWEPT)] for place in range(IN_TURNS)]


PLACES = [(stage, rig) for stage in STAGES for rig in rigs_of(stage)]


def in_turn(stage: str, rig: str) -> list[str]:
    """The faults whose turn it is on this rig, each on one of its devices; also those that others refuse."""
    rigs, found = rigs_of(stage), []
    for number, fault in enumerate(FAULTS):
        if fault not in faults_in(stage):
            continue
        turn = number % IN_TURNS
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


def test_every_rig_has_its_turn_with_a_fault_that_acts_everywhere() -> None:
    met: dict[str, set[str]] = defaultdict(set)
    for stage, rig in PLACES:
        for number, fault in enumerate(FAULTS):
            if fault in faults_in(stage) and rigs_of(stage)[number % IN_TURNS] == rig:
                met[fault].add(rig)
    everywhere = [name for name in FAULTS if all(name in faults_in(stage) for stage in STAGES[1:])]
    assert everywhere
    assert all(met[name] == set(SWEPT) for name in everywhere)
