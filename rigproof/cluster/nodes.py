"""The nodes of the cluster as Ray lists them: waited for at the start, watched afterwards."""

import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

import ray

from rigproof.cluster.bounded import Background
from rigproof.cluster.matching import FoundNode, match_nodes
from rigproof.profiles.models import Node

LIST_S = 5.0
WATCH_S = 2.0


def wait_for_nodes(promised: Sequence[Node], wait_s: float) -> dict[str, FoundNode]:
    """The promised nodes that are there, as soon as all are, or after `wait_s`."""
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
    """Every living node."""
    here = ray.get_runtime_context().get_node_id()
    return [_found(node, here) for node in ray.nodes() if node["Alive"]]


class NodeWatch:
    """Lists the nodes every 2 s in a thread, so that a head that does not answer holds nobody up."""

    def __init__(self, node_ids: dict[str, str]) -> None:
        self._node_ids = node_ids
        self._lost: dict[str, str] = {}
        self._told: set[str] = set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="rigproof-nodes", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> frozenset[str]:
        """Promised nodes that Ray has declared dead."""
        return frozenset(self._lost)

    def news(self) -> dict[str, str]:
        """Nodes lost since the last call, with Ray's reason."""
        fresh = {name: reason for name, reason in dict(self._lost).items() if name not in self._told}
        self._told |= set(fresh)
        return fresh

    def stop(self, timeout_s: float) -> None:
        """End the thread; one that hangs in a call is left behind."""
        self._stopping.set()
        self._thread.join(timeout_s)

    def _watch(self) -> None:
        while not self._stopping.wait(WATCH_S):
            try:
                nodes = {node["NodeID"]: node for node in ray.nodes()}
            except Exception:  # noqa: S112 - without an answer nothing is known, and nothing said
                continue
            for name, node_id in self._node_ids.items():
                node = nodes.get(node_id)
                if node is not None and not node["Alive"]:
                    self._lost.setdefault(name, node.get("DeathReasonMessage") or "Ray declared it dead")


def _found(node: dict[str, Any], here: str) -> FoundNode:
    return FoundNode(
        node_id=node["NodeID"],
        name=node.get("NodeName") or "",
        address=node["NodeManagerAddress"],
        hostname=node["NodeManagerHostname"],
        cpus=node["Resources"].get("CPU", 0.0),
        gpus=node["Resources"].get("GPU", 0.0),
        here=node["NodeID"] == here,
    )


def with_numeric_address(node: Node) -> Node:
    """Ray knows its nodes by numeric addresses; a name in the profile is looked up where it can be."""
    if node.address is None:
        return node
    name = node.address
    lookup = Background(lambda: socket.gethostbyname(name), "lookup")
    lookup.done(LIST_S)
    return node.model_copy(update={"address": lookup.result(name)})
