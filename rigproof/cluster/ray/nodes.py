"""The nodes of the cluster: waited for at the start, watched afterwards, by Ray's list and by their ports.

A node can be reached if its raylet's port accepts a TCP connection. The kernel accepts it even if the raylet
is frozen or starved, so no answer means that the host, its cable or its raylet is gone. Ray's own health
checks need about 50 s for that (5 checks of 10 s each).
"""

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ray

from rigproof.cluster.ray.matching import FoundNode, match_nodes
from rigproof.host.addresses import host_port, numeric, one_spelling
from rigproof.host.bounded import Background
from rigproof.profiles.tables.node import Node

LIST_S = 5.0
WATCH_S = 2.0
CONNECT_S = 1.0
AT_ONCE = 32  # connections that are tried in parallel

Probe = Callable[[FoundNode], bool]


def wait_for_nodes(promised: Sequence[Node], wait_s: float) -> dict[str, FoundNode]:
    """The promised nodes that have joined, by name: as soon as all are there, or after `wait_s`."""
    addressed = [with_numeric_address(node) for node in promised]
    end_s = time.monotonic() + wait_s
    while True:
        listing = Background(list_nodes, "nodes")
        listing.done(LIST_S)
        matched = match_nodes(addressed, listing.result([]))
        if len(matched) == len(promised) or time.monotonic() >= end_s:
            return matched
        time.sleep(0.5)


def list_nodes() -> list[FoundNode]:
    """Every living node of the cluster; if a host came back, only its entry that answers."""
    here = ray.get_runtime_context().get_node_id()
    return without_dead_doubles([_found(node, here) for node in ray.nodes() if node["Alive"]])


class NodeWatch:
    """Checks every 2 s, in a thread, which nodes are there: by Ray's list, and by the nodes themselves.

    A node that cannot be reached for `unreached_s` is lost, whatever Ray's head reports; one
    that comes back later stays lost. `now_s` is the clock of `silent_s`.
    """

    def __init__(
        self, nodes: Mapping[str, FoundNode], now_s: Callable[[], float], unreached_s: float
    ) -> None:
        self._node_ids = {name: node.node_id for name, node in nodes.items()}
        self._reach = Reach(nodes, unreached_s)
        self._now_s = now_s
        self._answered_s = now_s()
        self._lost: dict[str, str] = {}
        self._reported: set[str] = set()
        self._stopping = False
        self._hurry = threading.Event()
        self._asked = self._answered = 0  # numbers of the latest look that a caller wanted, and that was done
        self._looked = threading.Condition()
        self._thread = threading.Thread(target=self._watch, name="rigproof-nodes", daemon=True)
        self._thread.start()

    def news(self) -> dict[str, str]:
        fresh = {name: reason for name, reason in dict(self._lost).items() if name not in self._reported}
        self._reported |= set(fresh)
        return fresh

    def silent_s(self, now_s: float) -> float:
        """How long the head has listed no nodes; it is queried every 2 s."""
        return now_s - self._answered_s

    def begin_anew(self, now_s: float) -> None:
        self._answered_s = now_s

    def look(self, timeout_s: float) -> None:
        with self._looked:
            self._asked += 1
            wanted = self._asked
            self._hurry.set()
            self._looked.wait_for(lambda: self._answered >= wanted, timeout_s)

    def stop(self, timeout_s: float) -> None:
        """End the thread; one that hangs in a call is left behind."""
        self._stopping = True
        self._hurry.set()
        self._thread.join(timeout_s)

    def _watch(self) -> None:
        listing: Background[Any] | None = None
        asked = 0
        while True:
            self._hurry.wait(WATCH_S)
            self._hurry.clear()
            if self._stopping:
                return
            if listing is None:  # one at a time: a head that does not answer blocks one thread, not many
                listing, asked = Background(ray.nodes, "nodes"), self._asked
            for name, reason in self._reach.look(time.monotonic()).items():
                self._lost.setdefault(name, reason)
            if not listing.done(WATCH_S):
                continue  # without an answer nothing is known, and nothing is reported; `silent_s` grows
            answer, listing = listing, None
            if answer.error is None:
                self._answered_s = self._now_s()
                self._take(answer.result([]), asked)
            if self._asked > asked:
                self._hurry.set()

    def _take(self, listed: Sequence[Mapping[str, Any]], asked: int) -> None:
        """Take Ray's list of nodes, and wake the callers that wait for look number `asked`."""
        nodes = {node["NodeID"]: node for node in listed}
        for name, node_id in self._node_ids.items():
            node = nodes.get(node_id)
            if node is not None and not node["Alive"]:
                self._lost.setdefault(name, node.get("DeathReasonMessage") or "Ray declared it dead")
        with self._looked:
            self._answered = asked
            self._looked.notify_all()


def _found(node: dict[str, Any], here: str) -> FoundNode:
    return FoundNode(
        node_id=node["NodeID"],
        name=node.get("NodeName") or "",
        address=one_spelling(node["NodeManagerAddress"]),
        hostname=node["NodeManagerHostname"],
        cpus=node["Resources"].get("CPU", 0.0),
        gpus=node["Resources"].get("GPU", 0.0),
        here=node["NodeID"] == here,
        port=node.get("NodeManagerPort") or 0,
    )


def with_numeric_address(node: Node) -> Node:
    """The node with a numeric address, since Ray knows no names; a name is looked up where it can be."""
    if node.address is None:
        return node
    name = node.address
    lookup = Background(lambda: numeric(name), "lookup")
    lookup.done(LIST_S)
    return node.model_copy(update={"address": lookup.result(name)})


def answers(node: FoundNode) -> bool:
    """Whether the node's raylet accepts a connection within CONNECT_S."""
    try:
        socket.create_connection((node.address, node.port), CONNECT_S).close()
    except OSError:
        return False
    return True


def without_dead_doubles(nodes: Sequence[FoundNode], probe: Probe = answers) -> list[FoundNode]:
    """The nodes without dead entries that Ray still lists as alive beside a new one of the same address.

    A host that was lost and came back is listed twice until Ray's health checks have removed the old entry,
    for some 20 s. If it came back on the same port, it cannot be known which of the two answers: neither is
    kept until Ray knows. Several Rays of one host have ports of their own, answer all, and stay.
    """
    places = Counter((node.address, node.port) for node in nodes)
    nodes = [node for node in nodes if places[node.address, node.port] == 1]
    hosts = Counter(node.address for node in nodes)
    doubles = [node for node in nodes if hosts[node.address] > 1]
    dead = {node.node_id for node, there in _asked(doubles, probe) if not there}
    return [node for node in nodes if node.node_id not in dead]


class Reach:
    """Tracks since when each node cannot be reached; reports once that a node is lost."""

    def __init__(self, nodes: Mapping[str, FoundNode], limit_s: float, probe: Probe = answers) -> None:
        self._nodes = {name: node for name, node in nodes.items() if node.port and not node.here}
        self._limit_s = limit_s
        self._probe = probe
        # When each last answered; one that never did, as behind a firewall, is not judged.
        self._reached_s: dict[str, float] = {}

    def look(self, now_s: float) -> dict[str, str]:
        """Try every node. Returns those lost since the last look, with the reason. `now_s` is monotonic."""
        names = {node.node_id: name for name, node in self._nodes.items()}
        lost = {}
        for node, there in _asked(self._nodes.values(), self._probe):
            name = names[node.node_id]
            if there:
                self._reached_s[name] = now_s
            elif name in self._reached_s and now_s - self._reached_s[name] > self._limit_s:
                lost[name] = (
                    f"no answer from {host_port(node.address, node.port)} for {self._limit_s:g} s: "
                    "the host, its cable or its raylet is gone"
                )
        for name in lost:
            del self._nodes[name]
        return lost


def _asked(nodes: Iterable[FoundNode], probe: Probe) -> list[tuple[FoundNode, bool]]:
    """Every node with its answer, tried in parallel."""
    listed = list(nodes)
    if not listed:
        return []
    with ThreadPoolExecutor(min(AT_ONCE, len(listed)), thread_name_prefix="rigproof-reach") as pool:
        return list(zip(listed, pool.map(probe, listed), strict=True))
