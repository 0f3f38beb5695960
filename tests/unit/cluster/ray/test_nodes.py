"""The nodes are watched beside the run: a lost one is reported once, a head that hangs holds nobody up."""

import socket
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rigproof.cluster.ray import nodes
from rigproof.cluster.ray.matching import FoundNode
from rigproof.cluster.ray.nodes import NodeWatch, Reach, answers, without_dead_doubles


@pytest.fixture
def head(monkeypatch):
    """Ray's head: `alive` is what it lists of node "a"; an answer waits for `answers`."""

    class Head:
        alive = True
        answers = threading.Event()
        fails = False

        def nodes(self):
            self.answers.wait(60)
            if self.fails:
                raise ConnectionError
            return [{"NodeID": "a", "Alive": self.alive, "DeathReasonMessage": "no heartbeat"}]

    head = Head()
    head.answers = threading.Event()
    head.answers.set()
    monkeypatch.setattr(nodes.ray, "nodes", head.nodes)
    return head


@pytest.fixture
def watch(head):
    here = FoundNode("a", "pc1", "127.0.0.1", "pc1", 1.0, 0.0)  # without a port: not asked over the network
    watch = NodeWatch({"pc1": here}, time.monotonic, 10.0)
    yield watch
    head.answers.set()
    watch.stop(60)


def test_a_lost_node_is_reported_once(head, watch):
    watch.look(60)
    assert watch.news() == {}
    head.alive = False
    watch.look(60)
    assert watch.news() == {"pc1": "no heartbeat"}
    assert watch.news() == {}


@pytest.mark.parametrize("how", ["hangs", "fails"])
def test_a_head_that_does_not_answer_is_silent_and_holds_nobody_up(head, watch, how):
    watch.look(60)
    asked_s = time.monotonic()
    head.fails = how == "fails"
    if how == "hangs":
        head.answers.clear()
    watch.look(0.01)
    assert watch.silent_s(asked_s + 100) >= 100
    watch.begin_anew(asked_s + 100)
    assert watch.silent_s(asked_s + 101) == pytest.approx(1)


def found(node_id, address="10.0.0.1", port=7000, *, here=False):
    return FoundNode(node_id, node_id, address, "", cpus=8, gpus=1, here=here, port=port)


def only(*alive):
    """A probe that those answer."""
    return lambda node: node.node_id in alive


def test_a_host_that_came_back_is_the_entry_that_answers():
    nodes = [found("dead", "10.0.0.2", 7001), found("head"), found("back", "10.0.0.2", 7002)]
    kept = without_dead_doubles(nodes, only("head", "back"))
    assert [node.node_id for node in kept] == ["head", "back"]


def test_where_the_host_came_back_on_the_same_port_neither_entry_is_taken_yet():
    nodes = [found("one", "10.0.0.2", 7001), found("head"), found("other", "10.0.0.2", 7001)]
    kept = without_dead_doubles(nodes, only("one", "head", "other"))
    assert [node.node_id for node in kept] == ["head"]


def test_several_rays_of_one_host_stay_and_lonely_nodes_are_not_asked():
    nodes = [found("a", port=7001), found("b", port=7002), found("alone", "10.0.0.2")]
    assert without_dead_doubles(nodes, only("a", "b")) == nodes


@settings(deadline=None)  # a busy host is no failure
@given(st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=8))
def test_no_node_that_answers_is_ever_left_out_and_no_dead_double_kept(hosts):
    nodes = [found(str(number), f"10.0.0.{host}", 7000 + number) for number, (host, _) in enumerate(hosts)]
    alive = {str(number) for number, (_, there) in enumerate(hosts) if there}
    kept = without_dead_doubles(nodes, only(*alive))
    assert alive <= {node.node_id for node in kept}
    for node in kept:
        double = sum(other.address == node.address for other in nodes) > 1
        assert node.node_id in alive or not double


def test_a_node_is_lost_once_it_was_not_reached_for_longer_than_the_limit():
    alive = {"pc1", "pc2"}
    reach = Reach({name: found(name) for name in alive}, limit_s=4, probe=lambda node: node.node_id in alive)
    assert reach.look(0) == {}
    alive.remove("pc2")
    assert reach.look(2) == {}
    assert reach.look(4) == {}
    assert set(reach.look(4.1)) == {"pc2"}
    alive.add("pc2")
    assert reach.look(6) == {}, "reported once"


def test_a_link_that_comes_back_in_time_begins_anew():
    alive = {"pc2"}
    reach = Reach({"pc2": found("pc2")}, limit_s=4, probe=lambda node: node.node_id in alive)
    reach.look(0)
    alive.clear()
    reach.look(3)
    alive.add("pc2")
    reach.look(4)
    alive.clear()
    assert reach.look(7) == {}
    assert set(reach.look(9)) == {"pc2"}


def test_a_node_that_never_answered_and_the_own_one_are_not_judged():
    nodes = {"walled": found("walled"), "own": found("own", here=True), "unknown": found("unknown", port=0)}
    reach = Reach(nodes, limit_s=1, probe=only())
    assert reach.look(0) == reach.look(100) == {}


@pytest.mark.parametrize("listening", [True, False])
def test_a_port_answers_where_somebody_listens(listening):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if listening:
            server.listen()
        assert answers(found("a", "127.0.0.1", server.getsockname()[1])) is listening
