"""Agents that do not come up, work or end: what the driver asks of them, on a clock set by hand."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray.exceptions import ActorDiedError

import rigproof
from rigproof.cluster.actors.messages import AgentReply
from rigproof.cluster.driver.agents import MARK_LIMIT_S, NEVER_STARTED, ROUND_TRIPS, RoundTrip, clock_offset
from rigproof.cluster.ray.calls import Gone, LocalCall
from rigproof.host.processes import ProcessId
from rigproof.host.run_lock import Claim
from rigproof.records.measurements import Event, ForeignMemory
from rigproof.records.processes import GpuProcess
from support.driven_agents import LOAD, START_S, STOP_S, WORKER, Team, duty, facts

# Coming up


def test_each_is_started_on_its_node_and_asked_who_it_is(unbriefed):
    assert [made[:3] for made in unbriefed.made] == [
        ("run-agent-pc1-1", "pc1", "id-pc1"),
        ("run-agent-pc2-1", "pc2", "id-pc2"),
    ]
    assert unbriefed.actor("pc1").calls("facts") == [["pc1", True, START_S / 4]]
    assert unbriefed.actor("pc2").calls("facts") == [["pc2", False, START_S / 4]]
    assert [one.subject for one in unbriefed.records] == ["pc1", "pc2"]
    assert unbriefed.agents.ever == {ProcessId(7, 1)}


def test_its_clock_is_read_several_times(unbriefed):
    assert len(unbriefed.actor().calls("clock")) == ROUND_TRIPS == 7
    assert unbriefed.link().clock_offset_s == -5.0


def test_one_round_trip_that_comes_back_is_enough(killed_here):
    team = Team(pc1={"clock": [LocalCall(pending=True)] * 6 + [2.0]})
    team.start()
    assert team.link().clock_offset_s == -2.0


def test_an_agent_without_a_clock_is_given_up(killed_here):
    team = Team(pc1={"clock": None})
    assert set(team.start()) == {"pc2"}
    assert [one.message for one in team.deaths] == ["the node agent did not report its clock"]
    assert team.link().poller is None


def test_an_agent_that_does_not_answer_is_given_up_and_the_others_are_not(killed_here):
    team = Team(pc2={"facts": LocalCall(pending=True)})
    assert set(team.start()) == {"pc1"}
    (event,) = team.deaths
    assert (event.kind, event.subject) == ("agent_died", "pc2")
    assert event.message == "the node agent did not start: no answer in 60 s"
    assert event.data == {"node": "pc2", "starts": 1, "disturbed": NEVER_STARTED}


def test_why_an_agent_did_not_start_has_what_a_ray_of_our_own_said_last(killed_here):
    team = Team(pc2={"facts": ActorDiedError()})
    team.agents.begin_start(team.nodes)
    team.agents.start((), lambda: "OSError: No space left on device")
    (event,) = team.deaths
    assert event.message.endswith("(OSError: No space left on device)")
    assert event.data["disturbed"] == NEVER_STARTED


def test_an_agent_that_rays_memory_monitor_killed_is_not_the_rigs_loss(killed_here):
    team = Team()
    team.start()
    team.ends("pc1")
    team.ends("pc2", Gone("Ray's memory monitor killed it", "free some"))
    assert [one.data.get("disturbed") for one in team.deaths] == [None, "free some"]


def test_another_version_of_rigproof_is_refused_with_the_way_out(killed_here):
    team = Team(pc2={"facts": facts(version="0.0.1")})
    assert set(team.start()) == {"pc1"}
    (event,) = team.deaths
    assert event.message == "pc2 has rigproof 0.0.1"
    assert event.data["disturbed"] == f"install rigproof=={rigproof.__version__} there"
    assert (team.link("pc2").poller, team.link("pc2").identity) == (None, None)


# One run at a time


CLAIM = Claim("run-a", "box", 4242, "ml", 0.0, "/a")


def test_the_hosts_of_a_run_are_taken_by_their_agents(unbriefed):
    assert unbriefed.agents.take_hosts(CLAIM, 1.0) == {}
    assert [unbriefed.actor(node).calls("take_host") for node in ("pc1", "pc2")] == [[[CLAIM]], [[CLAIM]]]
    assert unbriefed.actor().calls("let_go_of_host") == []


def test_if_another_run_has_one_of_them_none_is_kept(killed_here):
    other = dataclasses.replace(CLAIM, run_id="run-b")
    team = Team(pc2={"take_host": other})
    team.start()
    assert team.agents.take_hosts(CLAIM, 1.0) == {"pc2": other}
    assert [team.actor(node).calls("let_go_of_host") for node in ("pc1", "pc2")] == [[[]], [[]]]


def test_an_agent_that_takes_over_takes_the_host_too(briefed):
    briefed.agents.take_hosts(CLAIM, 1.0)
    briefed.ends()
    briefed.agents.pollers()
    assert briefed.actor().calls("take_host") == [[CLAIM]]


# Duties


def test_they_are_told_their_duty_and_the_gpus_whose_xids_are_heard_come_back(killed_here):
    team = Team(pc1={"begin": frozenset({"pc1/gpu0"})}, pc2={"begin": frozenset({"pc2/gpu0"})})
    team.start()
    assert team.agents.begin({"pc1": duty("pc1"), "pc2": duty("pc2")}, 1.0) == {"pc1/gpu0", "pc2/gpu0"}
    assert team.actor("pc2").calls("begin") == [[duty("pc2")]]
    assert team.link().briefed


def test_a_node_without_an_agent_keeps_its_duty_for_the_next_one(unbriefed):
    unbriefed.agents.lost("pc2")
    assert unbriefed.agents.begin({"pc2": duty("pc2")}, 1.0) == frozenset()
    assert (unbriefed.link("pc2").duty, unbriefed.link("pc2").briefed) == (duty("pc2"), False)


def test_all_that_are_there_read_their_gpus(briefed):
    briefed.agents.lost("pc2")
    gone = briefed.made[1][3]
    briefed.agents.read("counters", "before", 4.0)
    assert briefed.actor().calls("counters") == [["before", 2.0]]
    assert gone.calls("counters") == []


def test_records_are_passed_on(briefed):
    briefed.answers(records=("one", "two"))
    assert briefed.records[-2:] == ["one", "two"]


def test_what_others_hold_of_a_gpu_is_kept_as_it_was_read_last(briefed):
    first, second = (ForeignMemory(t_s, "pc1/gpu0", 100.0 * t_s, ()) for t_s in (1.0, 2.0))
    briefed.answers(records=(first, second))
    assert briefed.agents.foreign == {"pc1/gpu0": second}
    assert briefed.records[-2:] == [first, second]


# An earlier run that never ended is reported once


def unfinished(node, run_id, kind="unfinished_run"):
    return Event(1.0, kind, node, "it ended", data={"run_id": run_id})


def test_an_earlier_run_that_two_agents_of_its_node_find_is_passed_on_once(killed_here):
    event, reset = unfinished("pc1", "run-1"), unfinished("pc1", "run-9", "host_reset")
    team = Team(pc1={"came_back": (event,)})
    team.start()
    del team.records[:]
    team.answers(records=(event, reset, reset))
    team.answers(records=(event,))
    team.agents.came_back({"pc1": team.nodes["pc1"]}, "run-9", 1.0)
    assert team.records == [event, reset, reset]


def test_another_run_or_the_same_of_another_node_is_passed_on_too(briefed):
    events = [unfinished("pc1", "run-1"), unfinished("pc1", "run-2")]
    briefed.answers(records=(*events, events[0]))
    briefed.answers("pc2", records=(unfinished("pc2", "run-1"),))
    assert briefed.records[-3:] == [*events, unfinished("pc2", "run-1")]


# Who holds the memory that ran out

GPU = "pc1/gpu0"
OWN = GpuProcess(4.0, GPU, 500, used_mib=90_000.0, user="me", name="ray::Worker")
CHILD = GpuProcess(4.0, GPU, 580, used_mib=4_000.0, user="me", name="python3", parents=(500, 1))
STRANGER = GpuProcess(31.0, GPU, 5263, used_mib=141_824.0, user="ml", name="python3")
OOM = Event(35.0, "oom", GPU, "wanted 128 MiB, 72 MiB free", data={"recovered": True})


def test_who_holds_what_is_reported_and_ours_are_not(briefed):
    briefed.agents.adopt("pc1", WORKER)
    briefed.answers(records=(OWN, CHILD, STRANGER))
    event = briefed.agents.with_holders("pc1", OOM)
    assert event.message == "wanted 128 MiB, 72 MiB free; pid 5263 (python3, user ml) holds 138 GiB"
    assert event.data == {"recovered": True, "holders": "pid 5263 (python3, user ml) holds 138 GiB"}


@pytest.mark.parametrize(
    "listed",
    [
        pytest.param((OWN, STRANGER, GpuProcess(33.0, GPU, 5263, gone=True)), id="it has left"),
        pytest.param((STRANGER,), id="ours are not listed: in a container the pid could be one of ours"),
        pytest.param((OWN, dataclasses.replace(STRANGER, subject="pc1/gpu1")), id="another card's"),
    ],
)
def test_nobody_is_named_who_may_not_hold_it(briefed, listed):
    briefed.agents.adopt("pc1", WORKER)
    briefed.answers(records=listed)
    assert briefed.agents.with_holders("pc1", OOM) == OOM


def test_a_cpu_load_is_started_and_stopped_where_there_is_one(briefed):
    briefed.agents.start_host_load({"pc1": LOAD, "pc9": LOAD})
    assert briefed.actor().calls("start_host_load") == [[LOAD]]
    briefed.agents.stop_host_load()
    briefed.agents.stop_host_load()  # nothing is left to stop
    assert briefed.actor().calls("stop_host_load") == [[]]
    assert briefed.actor("pc2").calls("stop_host_load") == []


def test_a_load_for_a_node_whose_agent_is_gone_is_kept_for_the_next_one(briefed):
    briefed.ends()
    briefed.agents.start_host_load({"pc1": LOAD})
    assert briefed.link().load == LOAD
    assert briefed.actor().calls("start_host_load") == []
    briefed.agents.lost("pc2")
    briefed.agents.start_host_load({"pc2": LOAD})
    briefed.agents.stop_host_load()
    assert briefed.link("pc2").load is None


def test_an_agent_without_a_duty_is_told_of_workers_later(unbriefed):
    unbriefed.agents.adopt("pc1", WORKER)
    assert unbriefed.actor().calls("adopt") == []
    unbriefed.agents.begin({"pc1": duty("pc1")}, 1.0)
    unbriefed.agents.adopt("pc1", ProcessId(501, 1))
    assert unbriefed.actor().calls("adopt") == [[ProcessId(501, 1)]]
    assert unbriefed.link().workers == {WORKER, ProcessId(501, 1)}


# Steps of load


def test_a_stage_is_noted_by_all_that_know_their_duty_and_waited_for(briefed, asked):
    briefed.now_s = 5.0
    briefed.agents.lost("pc2")
    briefed.agents.mark("sustained")
    assert briefed.actor().calls("mark") == [["sustained", 5.0]]
    assert asked == [(["pc1"], MARK_LIMIT_S)]
    briefed.now_s = 9.0
    briefed.agents.unmark()
    briefed.agents.unmark()
    assert briefed.actor().calls("mark")[1:] == [[None, 9.0]]


def test_a_restarted_agent_notes_the_stage_that_runs(briefed):
    briefed.now_s = 5.0
    briefed.agents.mark("sustained")
    briefed.ends()
    briefed.agents.pollers()
    assert briefed.actor().calls("mark") == [["sustained", 5.0]]


def test_steps_are_reported_once_and_those_of_the_stage_before_are_forgotten(briefed):
    briefed.agents.note("pc1", "pc1/gpu0#0", "bf16")
    briefed.agents.note("pc1", "pc1/gpu0#0", "fp16")
    briefed.agents.tell_steps()
    briefed.agents.tell_steps()
    assert briefed.actor().calls("doing") == [[{"pc1/gpu0#0": "fp16"}]]
    assert briefed.actor("pc2").calls("doing") == []
    briefed.agents.note("pc1", "pc1/gpu0#0", "bf16")
    briefed.agents.mark("training")
    briefed.agents.tell_steps()
    assert len(briefed.actor().calls("doing")) == 1


# Ending


def test_a_worker_is_killed_by_its_agent_and_directly_on_this_host(briefed, killed_here):
    for node in ("pc1", "pc2"):
        briefed.agents.kill(node, WORKER)
        assert briefed.actor(node).calls("kill") == [[WORKER]]
    assert killed_here == [WORKER]
    briefed.agents.lost("pc1")
    briefed.agents.kill("pc1", WORKER)
    assert killed_here == [WORKER, WORKER]


def test_all_that_are_there_finish_their_work(briefed):
    briefed.agents.lost("pc2")
    calls = briefed.agents.finish()
    assert set(calls) == {"pc1"}
    assert briefed.actor().calls("finish") == [[STOP_S / 8]]
    briefed.agents.finished({"pc1": LocalCall(AgentReply(ProcessId(7, 1), ("a", "b")))}, 1.0)
    briefed.agents.finished({"pc1": LocalCall(ActorDiedError())}, 1.0)
    assert briefed.records[-2:] == ["a", "b"]


def test_at_the_end_all_are_killed_directly_on_this_host_too(briefed, killed_here):
    actors = [made[3] for made in briefed.made]
    briefed.agents.end()
    briefed.driving.wait_kills(60.0)
    assert briefed.agents.pollers() == {}
    assert {id(one) for one in briefed.killed} == {id(one) for one in actors}
    assert killed_here == [ProcessId(7, 1)]  # the other's host is not this one


# Their clocks


def test_the_shortest_round_trip_counts():
    readings = [RoundTrip(10.0, 14.0, 100.0), RoundTrip(20.0, 20.2, 110.0), RoundTrip(30.0, 31.0, 120.0)]
    offset_s, error_s = clock_offset(readings)
    assert offset_s == pytest.approx(20.1 - 110.0)
    assert error_s == pytest.approx(0.1)


def test_without_a_reading_there_is_no_offset():
    with pytest.raises(ValueError, match="empty"):
        clock_offset([])


@given(
    st.floats(-1e6, 1e6),
    st.lists(st.tuples(st.floats(0, 1e4), st.floats(0, 5), st.floats(0, 5)), min_size=1),
)
def test_the_true_offset_lies_within_the_error(true_s, trips):
    readings = [RoundTrip(sent, sent + there + back, sent + there - true_s) for sent, there, back in trips]
    offset_s, error_s = clock_offset(readings)
    assert abs(offset_s - true_s) <= error_s + 1e-6
