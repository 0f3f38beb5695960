"""Agents that are silent or gone, and who takes their place: deadlines on a clock set by hand."""

from rigproof.host.processes import ProcessId
from support.driven_agents import LOAD, STALL_S, START_S, WORKER, duty


def test_an_agent_that_owes_an_answer_for_longer_than_a_stall_is_restarted(briefed):
    briefed.link().poller.send(1.0)
    briefed.silent_at(1.0 + STALL_S)
    assert briefed.deaths == []
    briefed.silent_at(1.0 + STALL_S + 0.1)
    (event,) = briefed.deaths
    assert (event.kind, event.subject) == ("agent_died", "pc1")
    assert event.message == "the node agent is gone: no answer for 10 s"
    assert event.data["starts"] == 1
    assert briefed.made[-1][:3] == ("run-agent-pc1-2", "pc1", "id-pc1")


def test_a_restarted_agent_has_the_limit_of_a_start(briefed):
    briefed.now_s = 20.0
    briefed.ends()
    briefed.silent_at(20.0 + START_S)
    assert len(briefed.deaths) == 1
    briefed.silent_at(20.0 + START_S + 0.1)
    assert [one.message for one in briefed.deaths][1:] == ["the node agent is gone: no answer for 60 s"]


def test_an_agent_that_owes_nothing_is_never_late(briefed):
    briefed.silent_at(1000.0)
    assert briefed.deaths == []


def test_a_driver_that_stood_still_forgets_that_an_answer_is_owed(briefed):
    briefed.link().poller.send(1.0)
    briefed.agents.begin_anew(30.0)
    briefed.silent_at(30.0 + STALL_S)
    assert briefed.deaths == []
    briefed.silent_at(30.0 + STALL_S + 0.1)
    assert len(briefed.deaths) == 1


def test_an_agent_is_restarted_once(briefed):
    briefed.ends()
    briefed.ends()
    assert [one.data["starts"] for one in briefed.deaths] == [1, 2]
    assert len(briefed.made) == 3
    assert briefed.link().poller is None
    assert [link.node for link in briefed.agents.links.values() if link.poller is not None] == ["pc2"]


def test_an_agent_that_had_no_duty_yet_is_not_restarted(unbriefed):
    unbriefed.ends()
    assert len(unbriefed.made) == 2
    assert unbriefed.link().poller is None


def test_a_restarted_agent_is_told_what_the_one_before_knew(briefed):
    briefed.agents.adopt("pc1", WORKER)
    briefed.agents.start_host_load({"pc1": LOAD})
    briefed.ends()
    assert not briefed.link().briefed
    briefed.agents.pollers()
    assert briefed.actor().every_call == [
        ("begin", duty("pc1")),
        ("adopt", WORKER),
        ("start_host_load", LOAD),
    ]
    briefed.agents.pollers()
    assert len(briefed.actor().calls("begin")) == 1


def test_a_restarted_agent_is_the_node_s_from_its_first_answer(briefed):
    briefed.ends()
    briefed.answers(pid=9)
    assert briefed.link().identity.agent_pid == 9
    assert briefed.records[-1] == briefed.link().identity
    assert briefed.agents.ever == {ProcessId(7, 1), ProcessId(9, 1)}
    count = len(briefed.records)
    briefed.answers(pid=9)
    assert len(briefed.records) == count


def test_the_agent_of_a_node_that_is_gone_is_not_polled(briefed):
    briefed.agents.lost("pc1")
    assert set(briefed.agents.pollers()) == {"pc2"}
    briefed.silent_at(1000.0)
    assert briefed.deaths == []
