"""The ground of a simulated rig: a local Ray with a raylet for each node, or this process."""

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from rigproof.cluster.driver.ground import Actors, Ground, RayGround, Reserving, Watch
from rigproof.cluster.ray.matching import FoundNode
from rigproof.cluster.ray.nodes import wait_for_nodes
from rigproof.cluster.ray.placement import WantedGpu
from rigproof.cluster.ray.session import MoreNode, start_local
from rigproof.host.processes import ProcessId
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.profiles.tables.node import Node
from rigproof.run.simulated.actors import LocalActors, TimedActors
from rigproof.simulation.faults.injected import SimulatedClock
from rigproof.simulation.rig import SimulatedRig

HEAD = "rigproof-head"  # Ray's own node, which offers nothing
CPUS_OF_DRIVER = 1.0


class SimulatedWatch:
    """Reports nodes that a fault removes."""

    def __init__(self, rig: SimulatedRig, clock: SimulatedClock) -> None:
        self._rig = rig
        self._clock = clock
        self._reported: set[str] = set()

    def news(self) -> dict[str, str]:
        now_s, stages = self._clock.now_s(), self._clock.stages
        lost = {
            fault.subject: "no heartbeat"
            for fault in self._rig.faults
            if fault.name in ("node-lost", "reset")
            and fault.subject not in self._reported
            and fault.begun(now_s, stages)
        }
        self._reported |= set(lost)
        return lost

    def silent_s(self, _now_s: float, /) -> float:
        """0, since a simulated rig has no head that could be silent."""
        return 0.0

    def begin_anew(self, _now_s: float, /) -> None:
        """Do nothing, since there is no head that could be silent."""

    def look(self, _timeout_s: float, /) -> None:
        """Do nothing, since `news` always knows the present state."""

    def stop(self, _timeout_s: float, /) -> None:
        """Do nothing, since nothing runs by itself here."""


def back(rig: SimulatedRig, clock: SimulatedClock) -> frozenset[str]:
    """The names of the nodes that a reset took down and that have returned by now."""
    resets = [fault for fault in rig.faults if fault.name == "reset"]
    windows = [(fault.subject, fault.window(clock.stages)) for fault in resets]
    return frozenset(node for node, window in windows if window is not None and window[1] <= clock.now_s())


def there(rig: SimulatedRig) -> list[Node]:
    """The promised nodes, without those that a fault leaves out."""
    return [node for node in rig.loaded.rig.nodes if rig.fault("node-missing", node.name) is None]


class SimulatedRayGround(RayGround):
    """A Ray of our own on this machine, with a raylet for each simulated node."""

    def __init__(self, rig: SimulatedRig, clock: SimulatedClock, *, prefix: str) -> None:
        super().__init__(rig.loaded, rig.plan, prefix=prefix, ray_address=None)
        self.actors: Actors = TimedActors(rig, clock)
        self._rig = rig
        self._clock = clock

    def open(self) -> dict[str, FoundNode]:
        nodes = there(self._rig)
        self._session = start_local(
            HEAD,
            cpus=CPUS_OF_DRIVER,
            gpus=0,
            namespace=self._prefix,
            limit_s=self._start_s,
            stop_s=self._stop_s,
            stall_s=self._stall_s,
            more=[
                MoreNode(node.name, self._cpus(node.name), len(self._rig.node(node.name).driver.gpus))
                for node in nodes
            ],
            in_advance=0,  # no actor is on the head
        )
        return wait_for_nodes(nodes, self._wait_nodes_s)

    def watch(self, _found: Mapping[str, FoundNode], _now_s: Callable[[], float], /) -> Watch:
        """Watch for nodes that the rig's faults remove."""
        return SimulatedWatch(self._rig, self._clock)

    def back(self, lost: Collection[str], /) -> dict[str, FoundNode]:
        """The lost nodes that their faults let return; the raylets themselves were never gone."""
        return super().back(set(lost) & back(self._rig, self._clock))

    def pause(self, length_s: float, spent_s: float, starting: bool, /) -> None:
        """Advance simulated time, and let real time pass only while a process starts."""
        if starting:
            super().pause(length_s, spent_s, starting)
        self._clock.advance(length_s)

    def _cpus(self, name: str) -> float:
        needed = sum(worker.cpus for worker in self._plan.workers if worker.node == name)
        return max(self._rig.node(name).host.cpus, needed + 1)


class Granted:
    """Grants every GPU: no other job uses a simulated rig."""

    def __init__(self) -> None:
        self.groups: dict[str, Any] = {}
        self.cpus: dict[str, float] = {}
        self.first: dict[str, Any] = {}

    def begin(self, _wanted: Iterable[WantedGpu], _limit_s: float, /) -> None:
        """Request nothing: all GPUs are granted at once."""

    def reserve(self, wanted: Sequence[WantedGpu], _limit_s: float, /) -> dict[str, str]:
        """Reserve all GPUs, refusing none."""
        self.groups = {gpu.subject: gpu.subject for gpu in wanted}
        self.cpus = {gpu.subject: gpu.cpus for gpu in wanted}
        return {}

    def release(self, _timeout_s: float, /) -> None:
        """Do nothing, since nothing is held."""


class InlineGround:
    """The whole rig in this process, without Ray: for large rigs, and for many runs."""

    opening = ""

    def __init__(self, rig: SimulatedRig, clock: SimulatedClock) -> None:
        self._local = LocalActors(rig, clock)
        self.actors: Actors = self._local
        self._rig = rig
        self._clock = clock
        self._up = False

    @property
    def up(self) -> bool:
        return self._up

    def open(self) -> dict[str, FoundNode]:
        """The promised nodes, without those that a fault leaves out."""
        self._up = True
        return {node.name: self._found(node.name) for node in there(self._rig)}

    def watch(self, _found: Mapping[str, FoundNode], _now_s: Callable[[], float], /) -> Watch:
        """Watch for nodes that the rig's faults remove."""
        return SimulatedWatch(self._rig, self._clock)

    def back(self, lost: Collection[str], /) -> dict[str, FoundNode]:
        """The lost nodes that their faults let return."""
        return {name: self._found(name) for name in sorted(set(lost) & back(self._rig, self._clock))}

    def reservations(self, _workers: Sequence[WorkerPlan], _found: Mapping[str, FoundNode], /) -> Reserving:
        """Reservations that grant every GPU."""
        return Granted()

    def pause(self, length_s: float, _spent_s: float, _starting: bool, /) -> None:
        """Advance simulated time only, however long the beat took: a seed gives the same run everywhere."""
        self._clock.advance(length_s)

    def last_lines(self) -> str:
        """Empty: there is no process that could fail."""
        return ""

    def close(self, _limit_s: float, _ours: frozenset[ProcessId], /) -> tuple[ProcessId, ...]:
        """Release every simulated driver; no process was started."""
        self._local.close()
        self._up = False
        return ()

    def _found(self, name: str) -> FoundNode:
        node = self._rig.node(name)
        return FoundNode(name, name, "127.0.0.1", name, node.host.cpus, float(len(node.driver.gpus)))


def simulated_ground(rig: SimulatedRig, clock: SimulatedClock, *, inline: bool) -> Ground:
    """The ground of a simulated rig: this process if `inline`, else a local Ray."""
    if inline:
        return InlineGround(rig, clock)
    return SimulatedRayGround(rig, clock, prefix=f"rigproof-simulated-{uuid.uuid4().hex[:8]}")
