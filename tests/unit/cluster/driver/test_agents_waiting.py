"""How long the driver waits for agents, and what it does with those that it gives up."""

import pytest

from rigproof.cluster.driver import agents as module
from rigproof.cluster.driver import ground
from rigproof.cluster.driver.agents import ROUND_TRIPS
from rigproof.host.processes import ProcessId
from support.driven_agents import Team, duty


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

    def wait(poller, timeout_s):
        found.append(timeout_s)
        team.now_s += each_s
        return poller.actor

    monkeypatch.setattr(module.Poller, "wait", wait)
    assert len(team.start()) == 2
    assert found == waits
    assert asked[0] == (["pc1", "pc2"], facts_s)
    assert asked[1:] == [(["clock"], 2.0)] * 2 * ROUND_TRIPS


def test_a_duty_and_a_reading_are_waited_for(unbriefed, asked):
    unbriefed.agents.begin({"pc1": duty("pc1")}, 3.0)
    unbriefed.agents.read("counters", "before", 4.0)
    assert asked == [(["pc1"], 3.0), (["pc1", "pc2"], 4.0)]


@pytest.mark.parametrize(("nodes", "each_s"), [(["pc1"], 6.0), (["pc1", "pc2"], 3.0)])
def test_kills_share_the_time_that_is_left_for_them(unbriefed, monkeypatch, nodes, each_s):
    waits, orders = [], []

    def ordered(order, name):
        orders.append((order, name))
        return Waited(waits)

    monkeypatch.setattr(ground, "Background", ordered)
    for node in {"pc1", "pc2"} - set(nodes):
        unbriefed.agents.lost(node)
    unbriefed.agents.end()
    unbriefed.driving.wait_kills(6.0)
    assert waits == [each_s] * len(nodes)
    assert {name for _, name in orders} == {"kill"}


def test_an_agent_that_is_given_up_is_killed_where_it_runs(briefed, killed_here):
    actors = {node: briefed.actor(node) for node in ("pc1", "pc2")}
    for node in ("pc1", "pc2"):
        briefed.link(node).poller.send(1.0)
    briefed.silent_at(100.0)
    briefed.driving.wait_kills(60.0)
    assert {id(one) for one in briefed.killed} == {id(one) for one in actors.values()}
    assert killed_here == [ProcessId(7, 1)]
    assert [link.process for link in briefed.agents.links.values()] == [None, None]


def test_nodes_that_came_back_are_asked_within_one_limit_and_their_records_kept(
    killed_here, asked, monkeypatch
):
    team = Team(pc1={"came_back": ("restarted",)}, pc2={"came_back": None})
    team.now_s = 33.0
    clock, waits = [100.0, 101.0, 109.5], []
    monkeypatch.setattr(module.time, "monotonic", lambda: clock.pop(0) if clock else 109.8)
    monkeypatch.setattr(module.Poller, "wait", lambda poller, limit_s: waits.append(limit_s) or poller.actor)
    team.agents.came_back(team.nodes, "run-1", 10.0)
    assert waits[:2] == [9.0, 0.5]  # kills wait for ever, in the background
    assert asked == [(["pc1", "pc2"], 1.0)]
    assert [made[:3] for made in team.made] == [
        ("run-back-pc1", "pc1", "id-pc1"),
        ("run-back-pc2", "pc2", "id-pc2"),
    ]
    assert team.made[0][3].calls("came_back") == [["pc1", "run-1", 33.0]]
    assert team.records == ["restarted"]
    team.driving.wait_kills(60.0)
    assert len(team.killed) == 2
