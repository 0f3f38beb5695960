"""Faults at their defaults, in the stages where they can act: refused, or noticed on the node where they act.

docs/faults.toml has each of them in each stage, on cards that can have it. Here are the rigs of hwprofiles:
each stage is tried on another one, with one of six faults, other ones than the stage before it.
bench/silent_faults.py tries every fault on every device of every rig, and that nothing is loud without one,
which would hide one that is silent.
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

SWEPT = tuple(rig for rig in RIGS if rig != EVERY_MODEL)  # its cards are many: bench/silent_faults.py has it
SHIFT = 3  # rigs that the next stage is ahead; prime to their number, so that every rig has its turn
EVERY = 6  # one of so many faults is tried in a stage
RIG_OF = {stage: SWEPT[SHIFT * place % len(SWEPT)] for place, stage in enumerate(STAGES)}


def tried(stage: str) -> list[tuple[int, str]]:
    """The faults whose turn it is in the stage, by their number."""
    every = [(number, fault) for number, fault in enumerate(FAULTS) if fault in faults_in(stage)]
    return [one for one in every if one[0] % EVERY == STAGES.index(stage) % EVERY]


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: f"{stage or 'any'} {RIG_OF[stage]}")
def test_a_fault_that_is_not_refused_is_noticed_on_its_node(stage: str) -> None:
    rig, texts = RIG_OF[stage], []
    for number, fault in tried(stage):
        every = texts_of(fault, stage, rig)
        texts.append(every[number % len(every)])
    runs = together([text for text in texts if not refused(text, stage, rig)])
    assert [text for several in runs for text in silent(rig, stage, several)] == []


def test_every_rig_has_its_turn_and_a_fault_that_acts_everywhere_meets_several() -> None:
    met: dict[str, set[str]] = defaultdict(set)
    for stage in STAGES:
        for _, fault in tried(stage):
            met[fault].add(RIG_OF[stage])
    assert set(RIG_OF.values()) == set(SWEPT)
    everywhere = [name for name in FAULTS if all(name in faults_in(stage) for stage in STAGES[1:])]
    assert everywhere
    assert all(len(met[name]) > 1 for name in everywhere)
