"""Follows the nodes of a rig, each by its agent in a thread of its own: one that hangs delays no other."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from rigproof.cluster.actors.messages import AgentDuty, AgentFacts
from rigproof.cluster.driver.presence import gpus_there, missing_node
from rigproof.host.bounded import Background
from rigproof.monitor.gathering import RATE_HZ, Gathering
from rigproof.profiles.auto import completed, rig_of
from rigproof.profiles.loading.load import all_skus
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.loading.matching import sku_of
from rigproof.records.identity import HostInventory
from rigproof.records.measurements import Event
from rigproof.records.processes import ProcessLimits
from rigproof.records.recording import Record
from rigproof.stages.registry import KINDS

POLL_S = 0.5
COUNTERS_EVERY_S = 10.0
WATCHED = ProcessLimits(growth_mib=1.0, sm_percent=5.0)  # smaller changes of a process are not shown
COUNTERS_LIMIT_S = 5.0  # shorter than the age at which a node's readings count as stale
LOOK_EVERY_S = 2.0  # for nodes that have come or gone
AGAIN_S = 30.0  # before an agent that was lost is started again
STOP_S = 2.0  # for the agent of a node that has gone


class Port(Protocol):
    """How the agent of one node is reached. Its records go to the gathering; failures are events."""

    def facts(self, node: str, gpu_promised: bool) -> AgentFacts | None:
        """What the node has; None if its agent did not start."""

    def begin(self, duty: AgentDuty) -> frozenset[str]:
        """Let it sample from now on; the subjects whose Xids it receives."""

    @property
    def clock_offset_s(self) -> float:
        """Adds to the node's monotonic clock to give the gathering's time. Known after `facts`."""

    @property
    def alive(self) -> bool:
        """Whether it may still answer."""

    def poll(self) -> bool:
        """Take what it has gathered; whether it answered."""

    def counters(self, limit_s: float) -> None:
        """Let it read the error counters; they come with a later poll."""

    def close(self, limit_s: float) -> None:
        """End the agent, within about `limit_s`."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes that a source follows, and how their agents are reached. `name` is shown in the title.

    `loaded` is the promised rig; None: every node that is found is shown. `there` gives the nodes that are
    there now, by name, each with an id that is another one once the node has restarted; None: that is not
    known. `port` reaches a new agent on a node; its second argument is a number that no other agent has.
    """

    name: str
    loaded: LoadedRig | None
    there: Callable[[], Mapping[str, str] | None]
    port: Callable[[str, int], Port]
    address: str | None = None  # of their cluster
    leave: Callable[[], object] = lambda: None


class Source:
    """Follows every node from when it is there until it has gone."""

    def __init__(self, nodes: Nodes, gathering: Gathering, now_s: Callable[[], float]) -> None:
        self._nodes = nodes
        self._loaded = nodes.loaded
        self._gathering = gathering
        self._now_s = now_s
        self._stopping = threading.Event()
        self._looked = False
        self._followers: dict[str, Follower] = {}
        self._ids: dict[str, str] = {}
        self._numbers = count()

    @property
    def name(self) -> str:
        """Where the readings come from."""
        return self._nodes.name

    @property
    def settled(self) -> bool:
        """Whether all nodes that are there are being sampled."""
        return self._looked and all(one.begun or one.ended for one in tuple(self._followers.values()))

    def open(self) -> None:
        """Begin. Does not wait for any agent."""
        if self._loaded is not None:
            for node in self._loaded.rig.nodes:
                self._gathering.promise(self._loaded, node.name)
        self.look()
        Background(self._look_after, "monitor-nodes")

    def look(self) -> None:
        """Follow the nodes that have come, and report those that have gone or, at first, are missing."""
        try:
            found = self._nodes.there()
            if found is None or self._stopping.is_set():
                return
            self._compare(found)
        except Exception as error:  # reported, and tried again the next time
            message = f"the nodes cannot be followed: {type(error).__name__}: {error}"
            self._gathering.add(Event(self._now_s(), "node_missing", "rig", message))
        self._looked = True

    def close(self, limit_s: float) -> None:
        """End our agents within about `limit_s`, and leave the nodes."""
        self._stopping.set()
        followers = list(self._followers.values())
        for follower in followers:
            follower.ask_to_stop()
        end_s = time.monotonic() + limit_s
        for follower in followers:
            follower.stop(max(0.1, end_s - time.monotonic()))
        self._nodes.leave()

    def _look_after(self) -> None:
        while not self._stopping.wait(LOOK_EVERY_S):
            self.look()

    def _compare(self, found: Mapping[str, str]) -> None:
        for name, node_id in found.items():
            if self._ids.get(name) != node_id or self._followers[name].due_again:
                self._follow(name)
                self._ids[name] = node_id
        for name in self._ids.keys() - found.keys():
            del self._ids[name]
            self._followers[name].ask_to_stop()
            message = f"{name} has left the cluster, or does not answer"
            self._gathering.add(Event(self._now_s(), "node_lost", name, message))
        if self._loaded is not None and not self._looked:
            for promised in self._loaded.rig.nodes:
                if promised.name not in found:
                    for event in missing_node(self._loaded, promised, self._nodes.address, self._now_s()):
                        self._gathering.add(event)

    def _follow(self, name: str) -> None:
        before = self._followers.get(name)
        if before is not None:
            before.stop(STOP_S)
        port = self._nodes.port(name, next(self._numbers))
        self._followers[name] = Follower(name, self._loaded, port, self._gathering, self._now_s)


class Follower:
    """Follows one node from its creation until `stop`."""

    def __init__(
        self,
        node: str,
        loaded: LoadedRig | None,
        port: Port,
        gathering: Gathering,
        now_s: Callable[[], float],
    ) -> None:
        self.begun = False  # whether its agent samples
        self._node = node
        self._loaded = loaded
        self._port = port
        self._gathering = gathering
        self._now_s = now_s
        self._created_s = now_s()
        self._stopping = threading.Event()
        self._thread = Background(self._follow, f"monitor-{node}")

    @property
    def ended(self) -> bool:
        """Whether it no longer follows: its agent did not start or has gone, or something failed."""
        return self._thread.done()

    @property
    def due_again(self) -> bool:
        """Whether it has ended, and its agent is to be started again."""
        return self.ended and self._now_s() - self._created_s > AGAIN_S

    def ask_to_stop(self) -> None:
        """Let it end, without waiting."""
        self._stopping.set()

    def stop(self, limit_s: float) -> None:
        """End it, and its agent, within about `limit_s`, even if a call hangs."""
        self.ask_to_stop()
        self._thread.done(limit_s / 4)
        self._port.close(3 * limit_s / 4)

    def _follow(self) -> None:
        try:
            self._follow_agent()
        except Exception as error:
            if not self._stopping.is_set():  # when everything is closed, calls may fail
                message = f"{self._node} is no longer followed: {type(error).__name__}: {error}"
                self._event("agent_died", message)

    def _follow_agent(self) -> None:
        promises_gpu = self._loaded is not None and any(
            one.node == self._node and one.gpu.device == "cuda" for one in self._loaded.devices()
        )
        facts = self._port.facts(self._node, promises_gpu)
        if facts is None or self._stopping.is_set():
            return
        stuck_s = self._watch(facts)
        next_counters_s = self._now_s()
        while not self._stopping.wait(POLL_S):
            if self._port.poll():
                self._gathering.polled(self._node, self._now_s())
            elif not self._port.alive:
                return
            if self._now_s() >= next_counters_s and facts.gpus:
                self._port.counters(min(COUNTERS_LIMIT_S, stuck_s))
                next_counters_s = self._now_s() + COUNTERS_EVERY_S

    def _watch(self, facts: AgentFacts) -> float:
        """Match the node's GPUs with the promised ones, and let the agent sample them.

        Returns the time after which a query that does not return is given up, s.
        """
        loaded = _promise(self._loaded, self._node, facts)
        if loaded is not self._loaded:
            self._gathering.promise(loaded, self._node)
        skus = all_skus(KINDS)
        gpus, missing = gpus_there(loaded, {self._node: facts}, sku_of(skus), self._now_s())
        records: list[Record] = [*gpus.values(), *missing]
        for record in records:
            self._gathering.add(record)
        if facts.nvml_error is not None and not missing:  # otherwise it is in the event of the missing GPU
            self._event("nvml_error", facts.nvml_error)
        answers = facts.driver_version is not None  # a hung NVML has already been waited for
        stuck_s = loaded.rig.timeouts.stall_s if answers else POLL_S
        uuids: Mapping[str, str] = {gpu.uuid: subject for subject, gpu in gpus.items()}
        duty = AgentDuty(self._node, self._port.clock_offset_s, RATE_HZ, stuck_s, uuids, processes=WATCHED)
        self._gathering.begin(self._node, facts, self._port.begin(duty), self._now_s())
        self.begun = True
        return stuck_s

    def _event(self, kind: str, message: str) -> None:
        self._gathering.add(Event(self._now_s(), kind, self._node, message))


def _promise(loaded: LoadedRig | None, node: str, facts: AgentFacts) -> LoadedRig:
    """The promised rig, completed from the node's inventory; without a promise, a rig of that inventory."""
    found = HostInventory(
        hostname=node,
        cpus=facts.cpus,
        ram_gib=facts.ram_gib,
        driver_version=facts.driver_version,
        nvml_error=facts.nvml_error,
        gpus=facts.gpus,
    )
    return rig_of(found, KINDS) if loaded is None else completed(loaded, found)
