"""An earlier run that never ended is one event of this run, even if two agents of its host find it."""

import pytest

from rigproof.cluster.actors import remembering
from rigproof.cluster.actors.agent import NodeAgent
from rigproof.cluster.actors.remembering import Remembering
from rigproof.cluster.driver.earlier_runs import reporting_once
from rigproof.host.proc import BootId
from rigproof.records.measurements import BootReading, Event
from support.last_words import OTHER_BOOT, head_of, leave


@pytest.fixture
def agents(tmp_path, monkeypatch):
    """Agents of one host: `first` has begun run-9 after run-1 was killed there, and has not ended."""
    monkeypatch.setenv("RIGPROOF_STATE_HOME", str(tmp_path))
    leave(tmp_path, head_of("run-1"))
    first = Remembering("here", "run-9", lambda: 3.0, dict)
    yield first
    first.end()


def kept(records):
    found = []
    sink = reporting_once(found.append)
    for record in records:
        sink(record)
    return [one for one in found if isinstance(one, Event)]


def restarted(monkeypatch):
    monkeypatch.setattr(remembering, "boot_id", lambda: BootId(OTHER_BOOT))


@pytest.mark.parametrize("reset", [False, True])
def test_a_node_that_came_back_does_not_report_it_again(agents, monkeypatch, reset):
    before = agents.begin()
    if reset:
        restarted(monkeypatch)
    after = NodeAgent(lambda: "").came_back("here", "run-9", 55.0)
    both = [one for one in (*before, *after) if isinstance(one, Event)]
    assert [(one.kind, one.data["run_id"]) for one in both] == [("unfinished_run", "run-1")] * 2
    assert [one.data["restarted"] for one in both] == [False, reset]  # the first agent was right
    assert kept([*before, *after]) == both[:1]


def test_an_agent_that_replaces_another_does_not_report_it_again(agents):
    before = agents.begin()
    second = Remembering("here", "run-9", lambda: 20.0, dict)
    again = second.begin()
    second.end()
    assert len([one for one in again if isinstance(one, Event)]) == 1
    assert kept([*before, *again]) == [one for one in before if isinstance(one, Event)]


def test_it_is_kept_if_the_first_agent_was_lost_before_it_was_polled(agents):
    agents.begin()
    (event,) = kept(NodeAgent(lambda: "").came_back("here", "run-9", 55.0))
    assert (event.kind, event.t_s) == ("unfinished_run", 55.0)


def test_other_runs_other_nodes_and_everything_else_pass():
    events = [
        Event(1.0, kind, node, "it ended", data={"run_id": run_id})
        for node in ("pc1", "pc2")
        for kind, run_id in (
            ("unfinished_run", "run-1"),
            ("unfinished_run", "run-2"),
            ("host_reset", "run-9"),
            ("host_reset", "run-9"),
        )
    ]
    reading = BootReading(1.0, "pc1", "before", "boot", None)
    found = []
    sink = reporting_once(found.append)
    for record in (*events, reading, reading):
        sink(record)
    assert found == [*events, reading, reading]
