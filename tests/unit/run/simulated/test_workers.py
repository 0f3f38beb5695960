"""Workers of a simulated rig in this process: what happens to them is seen by the real driver."""

from collections.abc import Callable
from functools import cache

import pytest

from rigproof.records.measurements import Event
from rigproof.records.recording import Recording
from rigproof.run.simulated.actors import FIRST_PID
from rigproof.run.simulated.trial import simulated_recording
from support.simulated import DUAL, rig_named

Recorded = Callable[..., Recording]


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    """A quick run with these faults; each is made once, and only read."""
    return cache(lambda *faults: simulated_recording(rig_named(DUAL), "quick", faults))


def events(recording: Recording, kind: str) -> list[Event]:
    return [one for one in recording.events if one.kind == kind]


def test_a_healthy_rig_has_no_event_of_trouble(recorded: Recorded) -> None:
    recording = recorded()
    trouble = ("worker_died", "worker_hung", "worker_failed", "agent_died", "timeout", "oom", "xid")
    assert not [one for one in recording.events if one.kind in trouble]
    assert {stage.status for stage in recording.stages.values()} == {"finished"}


def test_no_simulated_process_has_the_id_of_a_real_one(recorded: Recorded) -> None:
    recording = recorded()
    assert all(one.pid >= FIRST_PID for one in recording.workers)
    assert all(node.agent_pid is None or node.agent_pid >= FIRST_PID for node in recording.nodes.values())


@pytest.mark.parametrize(
    ("fault", "kind"), [("worker-killed", "worker_died"), ("worker-frozen", "worker_hung")]
)
def test_a_worker_that_goes_away_is_reported_and_replaced(recorded: Recorded, fault: str, kind: str) -> None:
    recording = recorded(f"{fault}@pc2/gpu0")
    [event] = events(recording, kind)
    assert event.worker == "pc2/gpu0#0"
    [replaced] = events(recording, "worker_replaced")
    assert replaced.worker == "pc2/gpu0#0"
    assert [one.generation for one in recording.workers if one.worker == "pc2/gpu0#0"] == [0, 1]
    assert recording.stages["sustained"].status == "partial"


def test_a_hung_kernel_costs_its_worker_and_nobody_else(recorded: Recorded) -> None:
    recording = recorded("hung-kernel@pc1/gpu0")
    [hung] = events(recording, "worker_hung")
    assert hung.subject == "pc1/gpu0"
    last_s = max(one.t_s for one in recording.rounds if one.subject == "pc2/gpu0")
    stage = recording.stages["sustained"]
    assert last_s > stage.start_s + 17


def test_a_node_that_is_lost_takes_its_workers_with_it(recorded: Recorded) -> None:
    recording = recorded("node-lost@pc2")
    assert [one.subject for one in events(recording, "node_lost")] == ["pc2"]
    assert [one.worker for one in events(recording, "worker_died")] == ["pc2/gpu0#0"]


def test_a_node_that_never_comes_has_no_worker(recorded: Recorded) -> None:
    recording = recorded("node-missing@pc2")
    assert {one.node for one in recording.workers} == {"pc1"}


def test_every_moment_is_simulated_time(recorded: Recorded) -> None:
    recording = recorded()
    stage = recording.stages["sustained"]
    assert (stage.end_s or 0) - stage.start_s == pytest.approx(12, abs=2)
