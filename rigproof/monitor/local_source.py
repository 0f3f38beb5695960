"""The monitor's readings on this machine alone, without Ray: a node agent in this process."""

import socket
import time
from collections.abc import Callable
from contextlib import suppress

from rigproof.cluster.actors.agent import NodeAgent
from rigproof.cluster.actors.messages import AgentDuty, AgentFacts
from rigproof.cluster.driver.presence import missing_node
from rigproof.cluster.ray.matching import local_node
from rigproof.host.visible import own_setting
from rigproof.monitor.following import Follower
from rigproof.monitor.gathering import Gathering
from rigproof.profiles.auto import node_name
from rigproof.profiles.errors import ProfileError
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.telemetry.host import host_addresses

FACTS_LIMIT_S = 15.0  # for NVML to start: seconds if several cards have to wake up first


class LocalPort:
    """The agent of this machine. A driver that hangs blocks threads, never this process."""

    alive = True

    def __init__(self, gathering: Gathering, clock_offset_s: float, facts_limit_s: float) -> None:
        self.clock_offset_s = clock_offset_s
        self._gathering = gathering
        self._facts_limit_s = facts_limit_s
        self._agent = NodeAgent(own_setting)

    def facts(self, node: str, gpu_promised: bool) -> AgentFacts:
        """What this machine has."""
        return self._agent.facts(node, gpu_promised, self._facts_limit_s)

    def begin(self, duty: AgentDuty) -> frozenset[str]:
        """Sample from now on."""
        return self._agent.begin(duty)

    def poll(self) -> bool:
        """Take what was gathered."""
        for record in self._agent.poll().records:
            self._gathering.add(record)
        return True

    def counters(self, limit_s: float) -> None:
        """Read the error counters."""
        self._agent.counters("after", limit_s)

    def close(self, limit_s: float) -> None:
        """End sampling; what hangs is left behind, with this process."""
        with suppress(Exception):  # nothing can be done about it
            self._agent.finish(limit_s / 2)


class LocalSource:
    """Watches this machine. `loaded` is the promised rig; None: what is found here.

    Raises on creation:
        ProfileError: this machine is not one of the rig's nodes.
    """

    name = "this machine"

    def __init__(
        self,
        loaded: LoadedRig | None,
        gathering: Gathering,
        now_s: Callable[[], float],
        facts_limit_s: float = FACTS_LIMIT_S,
    ) -> None:
        self._loaded = loaded
        self._gathering = gathering
        self._now_s = now_s
        self._facts_limit_s = facts_limit_s
        self._here = _here(loaded)
        self._follower: Follower | None = None

    @property
    def settled(self) -> bool:
        """Whether all that will be sampled is being sampled."""
        return self._follower is not None and (self._follower.begun or self._follower.ended)

    def open(self) -> None:
        """Begin. Does not wait for NVML."""
        for node in self._loaded.rig.nodes if self._loaded is not None else ():
            assert self._loaded is not None
            self._gathering.promise(self._loaded, node.name)
            if node.name != self._here:
                for event in missing_node(self._loaded, node, None, self._now_s()):
                    self._gathering.add(event)
        offset_s = self._now_s() - time.monotonic()
        port = LocalPort(self._gathering, offset_s, self._facts_limit_s)
        self._follower = Follower(self._here, self._loaded, port, self._gathering, self._now_s)

    def close(self, limit_s: float) -> None:
        """End it, within about `limit_s`."""
        if self._follower is not None:
            self._follower.stop(limit_s)


def _here(loaded: LoadedRig | None) -> str:
    hostname = socket.gethostname()
    if loaded is None:
        return node_name(hostname)
    here = local_node(loaded.rig.nodes, hostname, host_addresses())
    if here is None:
        names = ", ".join(node.name for node in loaded.rig.nodes)
        way_out = "give --ray-address of their cluster, or another --hwprofile"
        raise ProfileError(
            [f"{loaded.file}: this machine ({hostname}) is not one of its nodes, {names}; {way_out}"]
        )
    return here
