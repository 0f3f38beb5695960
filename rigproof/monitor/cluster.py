"""The monitor on a Ray cluster: one agent per node, no worker. The cluster is left as it was."""

import uuid
from collections.abc import Callable, Sequence

from rigproof.cluster.actors.messages import AgentDuty, AgentFacts
from rigproof.cluster.driver.agents import Agents
from rigproof.cluster.driver.ground import Driving, RayActors
from rigproof.cluster.ray.calls import collect
from rigproof.cluster.ray.join_probe import check_joinable
from rigproof.cluster.ray.matching import FoundNode, match_nodes, names_of
from rigproof.cluster.ray.nodes import list_nodes, with_numeric_address
from rigproof.cluster.ray.session import join
from rigproof.host.bounded import Background
from rigproof.monitor.following import STOP_S, Nodes
from rigproof.monitor.gathering import Gathering
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.rig import Timeouts

JOIN_LIMIT_S = 30.0
LIST_LIMIT_S = 5.0
ANSWER_S = 1.0
TIMEOUTS = Timeouts(task_s=60.0, start_s=60.0, stall_s=30.0, stop_s=STOP_S)


class ClusterPort:
    """The agent of one node, as Ray reaches it."""

    def __init__(
        self, node: str, found: FoundNode, prefix: str, gathering: Gathering, now_s: Callable[[], float]
    ) -> None:
        self._node = node
        self._found = found
        self._now_s = now_s
        self._driving = Driving(prefix, TIMEOUTS, gathering.add, now_s, RayActors())
        self._agents = Agents(self._driving)

    @property
    def clock_offset_s(self) -> float:
        return self._agents.links[self._node].clock_offset_s

    @property
    def alive(self) -> bool:
        return bool(self._agents.pollers())

    def facts(self, node: str, gpu_promised: bool) -> AgentFacts | None:
        """Start the agent. Returns what the node has; None if the agent did not start."""
        with_gpu = {node} if gpu_promised else set[str]()
        self._agents.begin_start({node: self._found})
        return self._agents.start(with_gpu).get(node)

    def begin(self, duty: AgentDuty) -> frozenset[str]:
        return self._agents.begin({self._node: duty}, JOIN_LIMIT_S)

    def poll(self) -> bool:
        """Take what it has gathered; an agent that is gone is restarted once."""
        answers = collect(self._agents.pollers(), ANSWER_S, self._now_s())
        for node, answer in answers.items():
            self._agents.take(node, answer)
        self._agents.check_silence()
        return bool(answers)

    def counters(self, limit_s: float) -> None:
        self._agents.read("counters", "after", 2 * limit_s)

    def close(self, limit_s: float) -> None:
        self._agents.end()
        self._driving.wait_kills(limit_s)


def cluster(
    loaded: LoadedRig | None,
    address: str,
    gathering: Gathering,
    now_s: Callable[[], float],
    *,
    allow_open: bool = False,
) -> Nodes:
    """The nodes of a cluster, which is joined. Raises ClusterUnreachable."""
    is_open = check_joinable(address, JOIN_LIMIT_S, allow_open=allow_open)
    prefix = f"rigproof-{uuid.uuid4().hex[:8]}-monitor"
    session = join(address, namespace=prefix, limit_s=JOIN_LIMIT_S, stop_s=STOP_S, open_cluster=is_open)
    found: dict[str, FoundNode] = {}

    def there() -> dict[str, str] | None:
        listing = Background(list_nodes, "nodes")
        if not listing.done(LIST_LIMIT_S) or listing.error is not None:
            return None
        named = _named(listing.result([]), loaded)
        found.update(named)
        return {name: node.node_id for name, node in named.items()}

    def port(node: str, number: int) -> ClusterPort:
        return ClusterPort(node, found[node], f"{prefix}-{number}", gathering, now_s)

    name = f"open cluster {address}" if is_open else f"cluster {address}"  # without a token
    return Nodes(name, loaded, there, port, address, lambda: session.close(STOP_S))


def _named(found: Sequence[FoundNode], loaded: LoadedRig | None) -> dict[str, FoundNode]:
    if loaded is None:
        return names_of(found)
    return match_nodes([with_numeric_address(node) for node in loaded.rig.nodes], found)
