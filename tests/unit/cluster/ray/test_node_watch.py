"""The nodes are listed beside the run: a lost one is reported once, a head that hangs holds nobody up."""

import threading
import time

import pytest

from rigproof.cluster.ray import nodes
from rigproof.cluster.ray.matching import FoundNode
from rigproof.cluster.ray.nodes import NodeWatch


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
    assert watch.lost == {"pc1"}


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
