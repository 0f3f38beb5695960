"""Who is followed: the nodes that are there, from when they come until they go."""

import time

import pytest

from rigproof.monitor.following import AGAIN_S, Nodes, Source
from rigproof.monitor.gathering import Gathering
from rigproof.records.samples import HostSample
from support.driven_agents import facts
from support.rig_profile import loaded_rig


class Port:
    """An agent that answers at once, with one reading of its host; `alive` until it is closed."""

    clock_offset_s = 0.0

    def __init__(self, node, number, gathering, now_s):
        self.node, self.number, self.alive = node, number, True
        self._gathering, self._now_s = gathering, now_s

    def facts(self, node, gpu_promised):
        return facts()

    def begin(self, duty):
        return frozenset()

    def poll(self):
        if self.alive:
            self._gathering.add(HostSample(self._now_s(), self.node, cpu_percent=50.0))
        return self.alive

    def close(self, limit_s):
        self.alive = False


class Watched:
    """A source of which a test says who is there; it looks only when that is told."""

    def __init__(self, loaded):
        self.now_s = 0.0
        self.gathering = Gathering()
        self.ports = []
        nodes = Nodes("a test", loaded, lambda: self.found, self._reach, "127.0.0.1:1")
        self.source = Source(nodes, self.gathering, lambda: self.now_s)
        if loaded is not None:
            for node in loaded.rig.nodes:
                self.gathering.promise(loaded, node.name)

    def _reach(self, node, number):
        self.ports.append(Port(node, number, self.gathering, lambda: self.now_s))
        return self.ports[-1]

    def there(self, **ids):
        self.found = ids
        self.source.look()

    def presence(self):
        return {node.name: node.presence for node in self.gathering.nodes(self.now_s)}

    def until(self, **presence):
        end_s = time.monotonic() + 30
        while self.presence() != presence:
            assert time.monotonic() < end_s, self.presence()
            time.sleep(0.02)


@pytest.fixture
def watched():
    """Makes sources whose agents answer at once."""
    made = []

    def watched(loaded=None):
        made.append(Watched(loaded))
        return made[-1]

    yield watched
    for one in made:
        one.source.close(0.8)


def test_without_a_profile_every_node_is_followed(watched):
    rig = watched()
    assert not rig.source.settled
    rig.there(pc1="1", pc2="2")
    rig.until(pc1="here", pc2="here")
    assert rig.source.settled


def test_a_promised_node_that_is_not_there_is_missing_with_what_to_type(watched):
    rig = watched(loaded_rig())
    rig.there(pc1="1")
    rig.until(pc1="here", pc2="missing")
    (_, pc2) = rig.gathering.nodes(rig.now_s)
    assert "pc2 is not in the cluster; switch it on, check its cable, type there: " in pc2.reason
    assert [gpu.presence for gpu in pc2.gpus] == ["missing"]


def test_a_node_that_leaves_is_missing_until_it_comes_back(watched):
    rig = watched(loaded_rig())
    rig.there(pc1="1", pc2="2")
    rig.until(pc1="here", pc2="here")
    rig.there(pc1="1")
    assert rig.presence() == {"pc1": "here", "pc2": "missing"}
    rig.there(pc1="1", pc2="7")
    rig.until(pc1="here", pc2="here")
    assert [port.node for port in rig.ports] == ["pc1", "pc2", "pc2"]
    assert len({port.number for port in rig.ports}) == 3
    assert [port.alive for port in rig.ports] == [True, False, True]


def test_while_nobody_knows_who_is_there_nothing_changes(watched):
    rig = watched(loaded_rig())
    rig.there(pc1="1", pc2="2")
    rig.until(pc1="here", pc2="here")
    rig.found = None
    rig.source.look()
    assert rig.presence() == {"pc1": "here", "pc2": "here"}
    assert len(rig.ports) == 2


def test_a_node_that_cannot_be_followed_is_reported_and_tried_again(watched, monkeypatch):
    def refused(self, *_):
        raise RuntimeError("no room")

    rig = watched(loaded_rig())
    with monkeypatch.context() as broken:
        broken.setattr(Port, "__init__", refused)
        rig.there(pc1="1", pc2="2")
    assert rig.gathering.errors == ("rig: the nodes cannot be followed: RuntimeError: no room",)
    rig.there(pc1="1", pc2="2")
    rig.until(pc1="here", pc2="here")


def test_an_agent_that_went_is_tried_again_after_a_while(watched):
    rig = watched()
    rig.there(pc1="1")
    rig.until(pc1="here")
    rig.ports[0].alive = False
    end_s = time.monotonic() + 30
    while not rig.source._followers["pc1"].ended:
        assert time.monotonic() < end_s
        time.sleep(0.02)
    rig.there(pc1="1")
    assert len(rig.ports) == 1
    rig.now_s = AGAIN_S + 1
    rig.there(pc1="1")
    assert len(rig.ports) == 2


def test_an_agent_that_fails_is_reported(watched, monkeypatch):
    def broken(self, node, gpu_promised):
        raise RuntimeError("out of patience")

    monkeypatch.setattr(Port, "facts", broken)
    rig = watched(loaded_rig())
    rig.there(pc1="1", pc2="2")
    rig.until(pc1="missing", pc2="missing")
    assert rig.source.settled
    (pc1, _) = rig.gathering.nodes(rig.now_s)
    assert pc1.reason == "pc1 is no longer followed: RuntimeError: out of patience"
