"""The monitor on this machine alone, without Ray: a node agent in this process."""

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rigproof.cluster.actors.agent import NodeAgent
from rigproof.cluster.actors.messages import AgentDuty, AgentFacts
from rigproof.cluster.ray.matching import local_node
from rigproof.host.visible import own_setting
from rigproof.monitor.following import Nodes
from rigproof.monitor.gathering import Gathering
from rigproof.profiles.auto import node_name
from rigproof.profiles.errors import ProfileError
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.telemetry.host import host_addresses

FACTS_LIMIT_S = 15.0  # for NVML to start: seconds if several cards have to wake up first


class LocalPort:
    """An agent in this process; `call` calls one of its methods. A driver that hangs blocks threads only."""

    alive = True

    def __init__(self, gathering: Gathering, clock_offset_s: float, call: Callable[..., Any]) -> None:
        self.clock_offset_s = clock_offset_s
        self._gathering = gathering
        self._call = call

    def facts(self, node: str, gpu_promised: bool) -> AgentFacts:
        found: AgentFacts = self._call("facts", node, gpu_promised, FACTS_LIMIT_S)
        return found

    def begin(self, duty: AgentDuty) -> frozenset[str]:
        heard: frozenset[str] = self._call("begin", duty)
        return heard

    def poll(self) -> bool:
        for record in self._call("poll").records:
            self._gathering.add(record)
        return True

    def counters(self, limit_s: float) -> None:
        self._call("counters", "after", limit_s)

    def close(self, limit_s: float) -> None:
        """End sampling; what hangs is left behind, with this process."""
        with suppress(Exception):  # nothing can be done about it
            self._call("finish", limit_s / 2)


def this_machine(loaded: LoadedRig | None, gathering: Gathering, now_s: Callable[[], float]) -> Nodes:
    """This machine, as a node of the promised rig. Raises ProfileError if it is none of them."""
    here = _here(loaded)

    def port(_node: str, _number: int) -> LocalPort:
        agent, offset_s = NodeAgent(own_setting), now_s() - time.monotonic()
        return LocalPort(gathering, offset_s, lambda method, *given: getattr(agent, method)(*given))

    return Nodes("this machine", loaded, lambda: {here: ""}, port)


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
