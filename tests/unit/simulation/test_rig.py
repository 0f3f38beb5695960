"""A simulated rig: made from its profile, alike in every process, nothing of it shared between runs."""

import pickle

import pytest

from rigproof.records.recording import Recording
from rigproof.run.simulated.trial import simulated_recording
from support.simulated import DUAL, STAGES, rig_named, simulated


def recorded(seed: int) -> Recording:
    return simulated_recording(rig_named(DUAL), "quick", seed=seed)


def test_a_seed_gives_the_same_recording_and_another_one_another() -> None:
    first = recorded(7)
    assert recorded(7) == first
    assert recorded(8) != first


def test_it_is_the_same_rig_in_another_process() -> None:
    rig = simulated(rig_named(DUAL), "throughput-sag@pc2/gpu0:by=15%", seed=3)
    rig.node("pc1").cards["pc1/gpu0"].at(50.0, STAGES)
    other = pickle.loads(pickle.dumps(rig))
    assert other == rig
    for node, subject in (("pc1", "pc1/gpu0"), ("pc2", "pc2/gpu0")):
        mine, theirs = rig.node(node).cards[subject], other.node(node).cards[subject]
        assert mine is not theirs
        assert mine.uuid == theirs.uuid
        assert mine.at(60.0, STAGES) == theirs.at(60.0, STAGES)


def test_a_plan_that_the_card_cannot_hold_runs_out_of_memory() -> None:
    rig = simulated(rig_named(DUAL), "foreign-memory@pc1/gpu0:to=6500")
    [fill] = rig.node("pc1").fills("pc1/gpu0").values()
    assert fill.shortages
    assert fill.held_mib < rig.plan.workers_of("pc1/gpu0")[0].vram_mib
    [healthy] = rig.node("pc2").fills("pc2/gpu0").values()
    assert not healthy.shortages


@pytest.mark.parametrize("fault", ["oom", "oom@pc1/gpu0"])
def test_the_fault_oom_runs_out_by_the_allocator(fault: str) -> None:
    [fill] = simulated(rig_named(DUAL), fault).node("pc1").fills("pc1/gpu0").values()
    assert fill.shortages
    assert not fill.failed
