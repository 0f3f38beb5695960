"""The monitor's readings on a Ray cluster: one agent per node, no worker. The cluster is left as it was."""

import itertools
import threading
import time
import uuid
from collections.abc import Callable, Sequence

from rigproof.cluster.actors.messages import AgentDuty, AgentFacts
from rigproof.cluster.driver.agents import Agents
from rigproof.cluster.driver.ground import RayActors
from rigproof.cluster.driver.presence import missing_node
from rigproof.cluster.ray.calls import collect
from rigproof.cluster.ray.join_probe import check_joinable
from rigproof.cluster.ray.matching import FoundNode, match_nodes, names_of
from rigproof.cluster.ray.nodes import list_nodes, with_numeric_address
from rigproof.cluster.ray.session import RaySession, join
from rigproof.host.bounded import Background
from rigproof.monitor.following import Follower
from rigproof.monitor.gathering import Gathering
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.rig import Timeouts
from rigproof.records.measurements import Event

JOIN_LIMIT_S = 30.0
STOP_S = 2.0
LIST_EVERY_S = 2.0
LIST_LIMIT_S = 5.0
AGAIN_S = 30.0  # before an agent that was lost is started again
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
        self._agents = Agents(prefix, TIMEOUTS, gathering.add, now_s, actors=RayActors())

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
        for poller, answer in answers:
            self._agents.take(poller, answer)
        self._agents.check_silence()
        return bool(answers)

    def counters(self, limit_s: float) -> None:
        self._agents.read("counters", "after", 2 * limit_s)

    def close(self, limit_s: float) -> None:
        self._agents.end()
        self._agents.wait_kills(limit_s)


class ClusterSource:
    """Watches the nodes of a cluster. `loaded` is the promised rig; None: every node that is there."""

    def __init__(
        self,
        loaded: LoadedRig | None,
        address: str,
        gathering: Gathering,
        now_s: Callable[[], float],
        *,
        allow_open: bool = False,
    ) -> None:
        self.name = f"cluster {address}"
        self._allow_open = allow_open
        self._loaded = loaded
        self._address = address
        self._gathering = gathering
        self._now_s = now_s
        self._prefix = f"rigproof-{uuid.uuid4().hex[:8]}-monitor"
        self._session: RaySession | None = None
        self._stopping = threading.Event()
        self._thread: Background[None] | None = None
        self._listed = False
        self._followers: dict[str, Follower] = {}
        self._ids: dict[str, str] = {}  # node to Ray's id of it
        self._begun_s: dict[str, float] = {}
        self._starts = itertools.count()  # names of actors are never reused

    @property
    def settled(self) -> bool:
        """Whether all nodes that are there are being sampled."""
        return self._listed and all(one.begun or one.ended for one in tuple(self._followers.values()))

    def open(self) -> None:
        """Join the cluster. Raises ClusterUnreachable."""
        cluster = check_joinable(self._address, JOIN_LIMIT_S, allow_open=self._allow_open)
        if cluster.open:
            self.name = f"open {self.name}"  # it has no token authentication
        self._session = join(
            self._address,
            namespace=self._prefix,
            limit_s=JOIN_LIMIT_S,
            stop_s=STOP_S,
            open_cluster=cluster.open,
        )
        if self._loaded is not None:
            for node in self._loaded.rig.nodes:
                self._gathering.promise(self._loaded, node.name)
        self._thread = Background(self._look_after, "monitor-nodes")

    def close(self, limit_s: float) -> None:
        """End our agents within about `limit_s`, and leave the cluster."""
        self._stopping.set()
        followers = list(self._followers.values())
        for follower in followers:
            follower.ask_to_stop()
        end_s = time.monotonic() + limit_s
        for follower in followers:
            follower.stop(max(0.1, end_s - time.monotonic()))
        if self._session is not None:
            self._session.close(STOP_S)

    def _look_after(self) -> None:
        """Follow joining nodes, and report lost ones, until closed."""
        while not self._stopping.is_set():
            listing = Background(list_nodes, "nodes")
            if listing.done(LIST_LIMIT_S) and listing.error is None and not self._stopping.is_set():
                try:
                    self._compare(self._named(listing.result([])))
                except Exception as error:  # reported, and tried again with the next listing
                    message = f"the nodes cannot be followed: {type(error).__name__}: {error}"
                    self._gathering.add(Event(self._now_s(), "node_missing", "rig", message))
                self._listed = True
            self._stopping.wait(LIST_EVERY_S)

    def _named(self, found: Sequence[FoundNode]) -> dict[str, FoundNode]:
        if self._loaded is None:
            return names_of(found)
        return match_nodes([with_numeric_address(node) for node in self._loaded.rig.nodes], found)

    def _compare(self, found: dict[str, FoundNode]) -> None:
        for name, node in found.items():
            if self._ids.get(name) != node.node_id or self._due_again(name):
                self._follow(name, node)
        for name in self._ids.keys() - found.keys():
            del self._ids[name]
            self._followers[name].ask_to_stop()
            self._gathering.add(
                Event(self._now_s(), "node_lost", name, f"{name} has left the cluster, or does not answer")
            )
        if self._loaded is not None and not self._listed:
            for promised in self._loaded.rig.nodes:
                if promised.name not in found:
                    for event in missing_node(self._loaded, promised, self._address, self._now_s()):
                        self._gathering.add(event)

    def _due_again(self, name: str) -> bool:
        return self._followers[name].ended and self._now_s() - self._begun_s[name] > AGAIN_S

    def _follow(self, name: str, node: FoundNode) -> None:
        before = self._followers.get(name)
        if before is not None:
            before.stop(STOP_S)
        self._ids[name], self._begun_s[name] = node.node_id, self._now_s()
        prefix = f"{self._prefix}-{next(self._starts)}"
        port = ClusterPort(name, node, prefix, self._gathering, self._now_s)
        self._followers[name] = Follower(name, self._loaded, port, self._gathering, self._now_s)
