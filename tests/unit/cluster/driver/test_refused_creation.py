"""What Ray refuses to create is an event, or a reason, and never an exception."""

import re
import threading

import pytest
import ray
from ray.exceptions import ActorDiedError, RaySystemError

from rigproof.cluster.driver.agents import AgentLink, Agents
from rigproof.cluster.driver.ground import Driving, Place, RayActors
from rigproof.cluster.driver.workers import Workers
from rigproof.cluster.ray import placement
from rigproof.cluster.ray.calls import collect
from rigproof.cluster.ray.matching import FoundNode
from rigproof.cluster.ray.placement import Reservations, WantedGpu
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.profiles.tables.rig import Timeouts
from rigproof.stages.registry import KINDS

NODE = FoundNode("ab" * 28, "pc1", "10.0.0.1", "pc1", cpus=8, gpus=1)
TIMEOUTS = Timeouts(start_s=60.0, stall_s=1.0, stop_s=1.0, task_s=60.0)
WORKER = WorkerPlan("pc1/cpu0#0", "pc1/cpu0", "pc1", "cpu", 1.0, 1.0, 64.0, 256)
REFUSALS = [RaySystemError("the head said no"), ActorDiedError(), ValueError("the name is taken")]


@pytest.fixture(params=REFUSALS, ids=lambda error: type(error).__name__)
def refusing(request, monkeypatch):
    """A Ray that makes nothing."""

    def refuse(*arguments, **options):
        raise request.param

    monkeypatch.setattr(ray, "remote", refuse)
    monkeypatch.setattr(placement, "placement_group", refuse)
    return request.param


def driving(events):
    return Driving("run", TIMEOUTS, events.append, lambda: 7.0, RayActors())


def team_of(events):
    return Agents(driving(events))


def crew_of(events):
    """The only worker of a node whose agent is of no matter here, asked for."""
    team = team_of(events)
    team.links["pc1"] = AgentLink("pc1", NODE, None)
    crew = Workers(driving(events), team, KINDS)
    crew.start([WORKER], {}, {}, {})
    return crew


def occupy(name, node, group):
    """Ask for the first process in a group."""
    return RayActors().worker(name, Place(node, group, 1.0, 0.0))


def poll(crew):
    """What one beat does, once the orders were answered."""
    for poller in crew.pollers().values():
        poller.wait(60)
    for worker, answer in collect(crew.pollers(), 0.01, 7.0).items():
        crew.take(worker, answer)


def test_an_agent_is_missed_by_an_event(refusing):
    events = []
    team = team_of(events)
    team.begin_start({"pc1": NODE})
    assert team.start({"pc1"}) == {}
    (event,) = events
    assert (event.kind, event.subject, event.t_s) == ("agent_died", "pc1", 7.0)
    assert event.message.startswith("the node agent did not start: Ray refused it: ")
    assert team.pollers() == {}


def test_a_worker_is_missed_by_an_event_and_the_others_are_not_waited_for(refusing):
    events = []
    crew = crew_of(events)
    poll(crew)
    (event,) = events
    assert (event.kind, event.subject, event.worker) == ("worker_failed", "pc1/cpu0", "pc1/cpu0#0")
    assert event.message.startswith("it was not started: Ray refused it: ")
    assert "Ray refused it" in event.data["error"]
    assert not crew.starting()
    assert crew.pollers() == {}
    assert {(event.kind, event.subject, event.worker) for event in events} == {
        ("worker_failed", "pc1/cpu0", "pc1/cpu0#0")
    }


def test_a_reservation_is_refused_with_the_reason(refusing):
    reservations = Reservations("run", occupy, print)
    refused = reservations.reserve([WantedGpu("pc1/gpu0", "GPU-0", NODE, 1.0)], 1.0)
    assert "Ray refused it" in refused["pc1/gpu0"]
    assert reservations.groups == {}
    reservations.release(0.1)


def test_a_reservation_that_nobody_answers_is_refused_at_the_limit(monkeypatch):
    never = threading.Event()
    monkeypatch.setattr(placement, "placement_group", lambda *arguments, **options: never.wait(600))
    reservations = Reservations("run", occupy, print)
    refused = reservations.reserve([WantedGpu("pc1/gpu0", "GPU-0", NODE, 1.0)], 0.2)
    # What is left of the limit: of 0.2 s a busy machine has used a little before it asks.
    assert re.search(r"Ray did not answer for \S+ s$", refused["pc1/gpu0"]), refused
    assert reservations.groups == {}
    reservations.release(0.1)
    never.set()


def test_what_nobody_expects_is_not_hidden(monkeypatch):
    def broken(*arguments, **options):
        raise KeyError("a fault of ours")

    monkeypatch.setattr(ray, "remote", broken)
    team = team_of([])
    team.begin_start({"pc1": NODE})
    with pytest.raises(KeyError, match="a fault of ours"):
        team.start(set())
    with pytest.raises(KeyError, match="a fault of ours"):
        poll(crew_of([]))
