"""Agents that do not come up, are silent or end: the driver's deadlines on a clock set by hand."""

import dataclasses
from types import SimpleNamespace

import pytest

import rigproof
from rigproof.cluster.actors.messages import AgentDuty, AgentFacts, AgentReply
from rigproof.cluster.driver import agents as module
from rigproof.cluster.driver.agents import MARK_LIMIT_S, ROUND_TRIPS, Agents, records_of
from rigproof.cluster.ray.calls import Gone, LocalCall
from rigproof.cluster.ray.matching import FoundNode
from rigproof.host.cpu_band import HostLoad
from rigproof.host.processes import ProcessId
from rigproof.profiles.tables.rig import Timeouts
from rigproof.records.measurements import Event

START_S, STALL_S, STOP_S = 60.0, 10.0, 8.0
TIMEOUTS = Timeouts(start_s=START_S, stall_s=STALL_S, stop_s=STOP_S, task_s=60.0)
LOAD = HostLoad(6, 1, 77.5)
WORKER = ProcessId(500, 1)


def facts(pid=7, version=rigproof.__version__):
    return AgentFacts(
        ProcessId(pid, 1), "host", 8, 64.0, "Linux", "3.11", "2.60", version, "2.13", "580", None, ()
    )


class Agent:
    """Stands for an agent's actor: notes every call, and gives what it was told to give."""

    def __init__(self, given):
        self.every_call = []
        self.given = {"facts": facts(), "clock": 5.0, "begin": frozenset(), **given}

    def __getattr__(self, method):
        def remote(*arguments):
            self.every_call.append((method, *arguments))
            answer = self.given.get(method)
            if isinstance(answer, list):
                answer = answer.pop(0) if answer else None
            return answer if isinstance(answer, LocalCall) else LocalCall(answer)

        return SimpleNamespace(remote=remote)

    def calls(self, method):
        return [arguments for name, *arguments in self.every_call if name == method]


class Team:
    """Agents of pc1 (this host) and pc2, on a clock that is set by hand."""

    def __init__(self, **given):
        self.now_s = 0.0
        self.records, self.made, self.killed, self.given = [], [], [], given
        self.agents = Agents(
            "run",
            TIMEOUTS,
            self.records.append,
            lambda: self.now_s,
            actors=SimpleNamespace(agent=self._make, kill=self.killed.append),
        )
        self.nodes = {
            name: FoundNode(f"id-{name}", name, "10.0.0.1", name, 8, 1, here=name == "pc1")
            for name in ("pc1", "pc2")
        }

    def _make(self, name, node, node_id):
        actor = Agent(self.given.get(node, {}))
        self.made.append((name, node, node_id, actor))
        return actor

    def start(self):
        self.agents.begin_start(self.nodes)
        return self.agents.start({"pc1"})

    def link(self, node="pc1"):
        return self.agents.links[node]

    def actor(self, node="pc1"):
        return self.link(node).actor

    def answers(self, node="pc1", pid=7, records=()):
        link = self.link(node)
        self.agents.lines()
        return self.agents.take(link.line, link.line.take(AgentReply(ProcessId(pid, 1), records), self.now_s))

    def ends(self, node="pc1"):
        self.agents.lines()
        assert self.agents.take(self.link(node).line, Gone("exit code 9"))

    def silent_at(self, now_s):
        self.now_s = now_s
        self.agents.check_silence()

    @property
    def deaths(self):
        return [one for one in self.records if isinstance(one, Event)]


@pytest.fixture
def killed_here(monkeypatch):
    """The processes of this host that were sent a SIGKILL; none really is."""
    found = []
    monkeypatch.setattr(module.processes, "kill", found.append)
    return found


@pytest.fixture
def team(killed_here):
    """Both are up, and have nothing to do yet."""
    made = Team()
    assert set(made.start()) == {"pc1", "pc2"}
    return made


@pytest.fixture
def briefed(team):
    """Both know their duty, and have answered once."""
    team.agents.begin({"pc1": duty("pc1"), "pc2": duty("pc2")}, 1.0)
    for node in ("pc1", "pc2"):
        team.answers(node)
    return team


@pytest.fixture
def asked(monkeypatch):
    """The keys and the limits of everything that was asked of agents."""
    found = []
    real = module.ask

    def noted(calls, limit_s):
        found.append((sorted(calls), limit_s))
        return real(calls, limit_s)

    monkeypatch.setattr(module, "ask", noted)
    return found


def duty(node):
    return AgentDuty(node, 0.0, 10.0, 5.0, {})


# Coming up


def test_each_is_started_on_its_node_and_asked_who_it_is(team):
    assert [made[:3] for made in team.made] == [
        ("run-agent-pc1-1", "pc1", "id-pc1"),
        ("run-agent-pc2-1", "pc2", "id-pc2"),
    ]
    assert team.actor("pc1").calls("facts") == [["pc1", True, START_S / 4]]
    assert team.actor("pc2").calls("facts") == [["pc2", False, START_S / 4]]
    assert [one.subject for one in team.records] == ["pc1", "pc2"]
    assert team.agents.pids() == {7}
    assert team.agents.ever == {ProcessId(7, 1)}


def test_its_clock_is_read_several_times(team):
    assert len(team.actor().calls("clock")) == ROUND_TRIPS == 7
    assert team.link().clock_offset_s == -5.0


def test_one_round_trip_that_comes_back_is_enough(killed_here):
    team = Team(pc1={"clock": [LocalCall(pending=True)] * 6 + [2.0]})
    team.start()
    assert team.link().clock_offset_s == -2.0


def test_an_agent_without_a_clock_is_given_up(killed_here):
    team = Team(pc1={"clock": None})
    assert set(team.start()) == {"pc2"}
    assert [one.message for one in team.deaths] == ["the node agent did not report its clock"]
    assert team.link().line is None


def test_an_agent_that_does_not_answer_is_given_up_and_the_others_are_not(killed_here):
    team = Team(pc2={"facts": LocalCall(pending=True)})
    assert set(team.start()) == {"pc1"}
    (event,) = team.deaths
    assert (event.kind, event.subject) == ("agent_died", "pc2")
    assert event.message == "the node agent did not start: no answer in 60 s"
    assert event.data == {"node": "pc2", "starts": 1}


def test_another_version_of_rigproof_is_refused_with_the_way_out(killed_here):
    team = Team(pc2={"facts": facts(version="0.0.1")})
    assert set(team.start()) == {"pc1"}
    (event,) = team.deaths
    assert event.message == f"pc2 has rigproof 0.0.1; install rigproof=={rigproof.__version__} there"
    assert (team.link("pc2").line, team.link("pc2").identity) == (None, None)


# Silence


def test_an_agent_that_owes_an_answer_for_longer_than_a_stall_is_restarted(briefed):
    briefed.link().line.send(1.0)
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
    briefed.link().line.send(1.0)
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
    assert briefed.link().line is None
    assert [link.node for link in briefed.agents.links.values() if link.line is not None] == ["pc2"]


def test_an_agent_that_had_no_duty_yet_is_not_restarted(team):
    team.ends()
    assert len(team.made) == 2
    assert team.link().line is None


def test_a_restarted_agent_is_told_what_the_one_before_knew(briefed):
    briefed.agents.adopt("pc1", WORKER)
    briefed.agents.start_host_load({"pc1": LOAD})
    briefed.ends()
    assert not briefed.link().briefed
    briefed.agents.lines()
    assert briefed.actor().every_call == [
        ("begin", duty("pc1")),
        ("adopt", WORKER),
        ("start_host_load", LOAD),
    ]
    briefed.agents.lines()
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
    assert [briefed.agents.links["pc2"].line] == briefed.agents.lines()
    briefed.silent_at(1000.0)
    assert briefed.deaths == []


# Duties


def test_they_are_told_their_duty_and_the_gpus_whose_xids_are_heard_come_back(killed_here):
    team = Team(pc1={"begin": frozenset({"pc1/gpu0"})}, pc2={"begin": frozenset({"pc2/gpu0"})})
    team.start()
    assert team.agents.begin({"pc1": duty("pc1"), "pc2": duty("pc2")}, 1.0) == {"pc1/gpu0", "pc2/gpu0"}
    assert team.actor("pc2").calls("begin") == [[duty("pc2")]]
    assert team.link().briefed


def test_a_node_without_an_agent_keeps_its_duty_for_the_next_one(team):
    team.agents.lost("pc2")
    assert team.agents.begin({"pc2": duty("pc2")}, 1.0) == frozenset()
    assert (team.link("pc2").duty, team.link("pc2").briefed) == (duty("pc2"), False)


def test_all_that_are_there_read_their_gpus(briefed):
    briefed.agents.lost("pc2")
    gone = briefed.made[1][3]
    briefed.agents.read("counters", "before", 4.0)
    assert briefed.actor().calls("counters") == [["before", 2.0]]
    assert gone.calls("counters") == []


def test_records_are_passed_on_and_an_answer_of_nobody_is_not_taken(briefed):
    assert briefed.answers(records=("one", "two"))
    assert briefed.records[-2:] == ["one", "two"]
    assert not briefed.agents.take(object(), AgentReply(ProcessId(7, 1), ()))
    old = briefed.link().line
    briefed.ends()
    assert not briefed.agents.take(old, AgentReply(ProcessId(7, 1), ()))


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


def test_an_agent_without_a_duty_is_told_of_workers_later(team):
    team.agents.adopt("pc1", WORKER)
    assert team.actor().calls("adopt") == []
    team.agents.begin({"pc1": duty("pc1")}, 1.0)
    team.agents.adopt("pc1", ProcessId(501, 1))
    assert team.actor().calls("adopt") == [[ProcessId(501, 1)]]
    assert team.link().workers == {WORKER, ProcessId(501, 1)}


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
    briefed.agents.lines()
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
    assert set(briefed.agents.finish()) == {"pc1"}
    assert briefed.actor().calls("finish") == [[STOP_S / 8]]


def test_at_the_end_all_are_killed_directly_on_this_host_too(briefed, killed_here):
    actors = [made[3] for made in briefed.made]
    briefed.agents.end()
    briefed.agents.wait_kills(60.0)
    assert briefed.agents.lines() == []
    assert {id(one) for one in briefed.killed} == {id(one) for one in actors}
    assert killed_here == [ProcessId(7, 1)]  # the other's host is not this one


def test_the_last_records_are_those_of_the_answers_that_came():
    reply = AgentReply(ProcessId(7, 1), ("a", "b"))
    assert records_of([reply, Gone("late"), dataclasses.replace(reply, records=("c",))]) == ["a", "b", "c"]


# Limits of waiting


class Waited:
    """Stands for an order that Ray takes its time with: notes how long it may be waited for."""

    def __init__(self, waits, passes=lambda: None):
        self._waits, self._passes = waits, passes

    def done(self, timeout_s=0.0):
        self._waits.append(timeout_s)
        self._passes()
        return True


@pytest.mark.parametrize(
    ("each_s", "waits", "facts_s"),
    [(20.0, [60.0, 40.0], 20.0), (25.0, [60.0, 35.0], 15.0), (70.0, [60.0, 0.0], 15.0)],
)
def test_all_come_up_within_one_limit_and_have_a_quarter_of_it_to_answer(
    killed_here, asked, monkeypatch, each_s, waits, facts_s
):
    team = Team()
    found = []

    def wait(line, timeout_s):
        found.append(timeout_s)
        team.now_s += each_s
        return line.actor

    monkeypatch.setattr(module.Line, "wait", wait)
    assert len(team.start()) == 2
    assert found == waits
    assert asked[0] == (["pc1", "pc2"], facts_s)
    assert asked[1:] == [(["clock"], 2.0)] * 2 * ROUND_TRIPS


def test_a_duty_and_a_reading_are_waited_for(team, asked):
    team.agents.begin({"pc1": duty("pc1")}, 3.0)
    team.agents.read("counters", "before", 4.0)
    assert asked == [(["pc1"], 3.0), (["pc1", "pc2"], 4.0)]


@pytest.mark.parametrize(("nodes", "each_s"), [(["pc1"], 6.0), (["pc1", "pc2"], 3.0)])
def test_kills_share_the_time_that_is_left_for_them(team, monkeypatch, nodes, each_s):
    waits, orders = [], []

    def ordered(order, name):
        orders.append((order, name))
        return Waited(waits)

    monkeypatch.setattr(module, "Background", ordered)
    for node in {"pc1", "pc2"} - set(nodes):
        team.agents.lost(node)
    team.agents.end()
    team.agents.wait_kills(6.0)
    assert waits == [each_s] * len(nodes)
    assert {name for _, name in orders} == {"kill"}


def test_an_agent_that_is_given_up_is_killed_where_it_runs(briefed, killed_here):
    actors = {node: briefed.actor(node) for node in ("pc1", "pc2")}
    for node in ("pc1", "pc2"):
        briefed.link(node).line.send(1.0)
    briefed.silent_at(100.0)
    briefed.agents.wait_kills(60.0)
    assert {id(one) for one in briefed.killed} == {id(one) for one in actors.values()}
    assert killed_here == [ProcessId(7, 1)]
    assert briefed.agents.pids() == frozenset()


def test_nodes_that_came_back_are_asked_within_one_limit_and_their_records_kept(
    killed_here, asked, monkeypatch
):
    team = Team(pc1={"came_back": ("restarted",)}, pc2={"came_back": None})
    team.now_s = 33.0
    clock, waits = [100.0, 101.0, 109.5], []
    monkeypatch.setattr(module.time, "monotonic", lambda: clock.pop(0) if clock else 109.8)
    monkeypatch.setattr(module.Line, "wait", lambda line, limit_s: waits.append(limit_s) or line.actor)
    team.agents.came_back(team.nodes, "run-1", 10.0)
    assert waits[:2] == [9.0, 0.5]  # kills wait for ever, in the background
    assert asked == [(["pc1", "pc2"], 1.0)]
    assert [made[:3] for made in team.made] == [
        ("run-back-pc1", "pc1", "id-pc1"),
        ("run-back-pc2", "pc2", "id-pc2"),
    ]
    assert team.made[0][3].calls("came_back") == [["pc1", "run-1", 33.0]]
    assert team.records == ["restarted"]
    team.agents.wait_kills(60.0)
    assert len(team.killed) == 2
