"""Who is followed on a cluster: those that are there, under the names that people know."""

import time
from typing import ClassVar

import pytest

from rigproof.cluster.actors.messages import AgentFacts
from rigproof.cluster.ray.matching import FoundNode
from rigproof.host.processes import own_process
from rigproof.monitor import cluster_source
from rigproof.monitor.cluster_source import ClusterSource, names_of
from rigproof.monitor.gathering import Gathering
from rigproof.records.samples import HostSample
from support.rig_profile import loaded_rig


def found(name, node_id="1", address="10.0.0.1", hostname="box"):
    return FoundNode(node_id, name, address, hostname, 8.0, 0.0)


def test_nodes_are_called_as_they_were_told_to_be():
    nodes = [
        found("10.0.0.2", "2", "10.0.0.2", "shop floor"),
        found("pc1", "1", "10.0.0.1"),
        found("", "3", "10.0.0.3", "pc1"),
    ]
    named = names_of(nodes)
    assert {name: node.node_id for name, node in named.items()} == {
        "pc1": "1",
        "shop-floor": "2",
        "pc1-2": "3",
    }


class Port:
    """An agent that answers at once, with one reading of its host; `alive` until it is closed."""

    made: ClassVar[list["Port"]] = []

    def __init__(self, node, _found, prefix, gathering, now_s):
        self.node, self.prefix, self.alive, self.clock_offset_s = node, prefix, True, 0.0
        self._gathering, self._now_s = gathering, now_s
        self.made.append(self)

    def facts(self, node, gpu_promised):
        return AgentFacts(own_process(), node, 8.0, 64.0, "", "", "", "", None, None, None, ())

    def begin(self, duty):
        return frozenset()

    def poll(self):
        if self.alive:
            self._gathering.add(HostSample(self._now_s(), self.node, cpu_percent=50.0))
        return self.alive

    def close(self, limit_s):
        self.alive = False


class Watched:
    """A source on no cluster, given by hand who is there."""

    def __init__(self, loaded):
        self.now_s = 0.0
        self.gathering = Gathering()
        self.source = ClusterSource(loaded, "127.0.0.1:1", self.gathering, lambda: self.now_s)
        if loaded is not None:
            for node in loaded.rig.nodes:
                self.gathering.promise(loaded, node.name)

    def there(self, **nodes):
        self.source._compare({name: found(name, node_id) for name, node_id in nodes.items()})
        self.source._listed = True

    def presence(self):
        return {node.name: node.presence for node in self.gathering.nodes(self.now_s)}

    def until(self, **presence):
        end_s = time.monotonic() + 30
        while self.presence() != presence:
            assert time.monotonic() < end_s, self.presence()
            time.sleep(0.02)


@pytest.fixture
def watched(monkeypatch):
    """Makes sources whose agents answer at once."""
    monkeypatch.setattr(cluster_source, "ClusterPort", Port)
    monkeypatch.setattr(Port, "made", [])
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
    assert [port.node for port in Port.made] == ["pc1", "pc2", "pc2"]
    assert len({port.prefix for port in Port.made}) == 3
    assert [port.alive for port in Port.made] == [True, False, True]


def test_an_agent_that_went_is_tried_again_after_a_while(watched):
    rig = watched()
    rig.there(pc1="1")
    rig.until(pc1="here")
    Port.made[0].alive = False
    end_s = time.monotonic() + 30
    while not rig.source._followers["pc1"].ended:
        assert time.monotonic() < end_s
        time.sleep(0.02)
    rig.there(pc1="1")
    assert len(Port.made) == 1
    rig.now_s = cluster_source.AGAIN_S + 1
    rig.there(pc1="1")
    assert len(Port.made) == 2


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
