"""Whether a node can be reached over the network: its raylet's port accepts a TCP connection.

The kernel accepts it even if the raylet is frozen or starved, so no answer means that the host, its cable or
its raylet is gone. Ray's own health checks need about 50 s for that (5 checks of 10 s each).
"""

import socket
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from rigproof.cluster.ray.matching import FoundNode
from rigproof.host.addresses import host_port

CONNECT_S = 1.0
AT_ONCE = 32  # connections that are tried in parallel

Probe = Callable[[FoundNode], bool]


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
