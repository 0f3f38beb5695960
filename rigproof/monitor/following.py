"""Follows one node's agent in a thread of its own, so that a node that hangs does not delay the others."""

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from rigproof.cluster.actors.messages import AgentDuty, AgentFacts
from rigproof.cluster.driver.presence import gpus_there
from rigproof.host.bounded import Background
from rigproof.monitor.gathering import RATE_HZ, Gathering
from rigproof.profiles.auto import completed, rig_of
from rigproof.profiles.loading.load import all_skus
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.loading.matching import sku_of
from rigproof.records.inventory import HostInventory
from rigproof.records.measurements import Event
from rigproof.records.processes import ProcessLimits
from rigproof.records.recording import Record
from rigproof.stages.registry import KINDS

POLL_S = 0.5
COUNTERS_EVERY_S = 10.0
WATCHED = ProcessLimits(growth_mib=1.0, sm_percent=5.0)  # smaller changes of a process are not shown
COUNTERS_LIMIT_S = 5.0  # shorter than the age at which a node's readings count as stale


class Port(Protocol):
    """One node's agent, wherever it runs. Its records go to the gathering; failures are events."""

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
        """End it."""


class Follower:
    """Follows a node from its creation until `stop`. `loaded`: the promised rig; None: whatever is found."""

    def __init__(
        self,
        node: str,
        loaded: LoadedRig | None,
        port: Port,
        gathering: Gathering,
        now_s: Callable[[], float],
    ) -> None:
        self.node = node
        self._loaded = loaded
        self._port = port
        self._gathering = gathering
        self._now_s = now_s
        self.begun = False  # whether its agent samples
        self._stopping = threading.Event()
        self._thread = Background(self._follow, f"monitor-{node}")

    @property
    def ended(self) -> bool:
        """Whether it no longer follows: its agent did not start or has gone, or something failed."""
        return self._thread.done()

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
                message = f"{self.node} is no longer followed: {type(error).__name__}: {error}"
                self._event("agent_died", message)

    def _follow_agent(self) -> None:
        promises_gpu = self._loaded is not None and any(
            one.node == self.node and one.gpu.device == "cuda" for one in self._loaded.devices()
        )
        facts = self._port.facts(self.node, promises_gpu)
        if facts is None or self._stopping.is_set():
            return
        stuck_s = self._watch(facts)
        next_counters_s = self._now_s()
        while not self._stopping.wait(POLL_S):
            if self._port.poll():
                self._gathering.polled(self.node, self._now_s())
            elif not self._port.alive:
                return
            if self._now_s() >= next_counters_s and facts.gpus:
                self._port.counters(min(COUNTERS_LIMIT_S, stuck_s))
                next_counters_s = self._now_s() + COUNTERS_EVERY_S

    def _watch(self, facts: AgentFacts) -> float:
        """Match the node's GPUs with the promised ones, and let the agent sample them.

        Returns the time after which a query that does not return is given up, s.
        """
        loaded = _promise(self._loaded, self.node, facts)
        if loaded is not self._loaded:
            self._gathering.promise(loaded, self.node)
        skus = all_skus(KINDS)
        gpus, missing = gpus_there(loaded, {self.node: facts}, sku_of(skus), self._now_s())
        records: list[Record] = [*gpus.values(), *missing]
        for record in records:
            self._gathering.add(record)
        if facts.nvml_error is not None and not missing:  # otherwise it is in the event of the missing GPU
            self._event("nvml_error", facts.nvml_error)
        answers = facts.driver_version is not None  # a hung NVML has already been waited for
        stuck_s = loaded.rig.timeouts.stall_s if answers else POLL_S
        uuids: Mapping[str, str] = {gpu.uuid: subject for subject, gpu in gpus.items()}
        duty = AgentDuty(self.node, self._port.clock_offset_s, RATE_HZ, stuck_s, uuids, processes=WATCHED)
        self._gathering.begin(self.node, facts, self._port.begin(duty), self._now_s())
        self.begun = True
        return stuck_s

    def _event(self, kind: str, message: str) -> None:
        self._gathering.add(Event(self._now_s(), kind, self.node, message))


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
