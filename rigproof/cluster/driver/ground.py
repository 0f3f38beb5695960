"""What a rig stands on: where its nodes come from, how its actors are started, how time passes there."""

import socket
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from rigproof.cluster.actors.agent import NodeAgent
from rigproof.cluster.actors.worker import RigproofWorker
from rigproof.cluster.launch.commands import cuda_gpus
from rigproof.cluster.ray.calls import Maker, Poller
from rigproof.cluster.ray.join_probe import check_joinable
from rigproof.cluster.ray.matching import FoundNode, local_node
from rigproof.cluster.ray.nodes import NodeWatch, answers, wait_for_nodes
from rigproof.cluster.ray.placement import Reservations, WantedGpu
from rigproof.cluster.ray.session import RaySession, join, start_local
from rigproof.devices.allocator import wanted as allocator_options
from rigproof.host.bounded import Background
from rigproof.host.processes import ProcessId
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import MemoryPlan, Plan, WorkerPlan
from rigproof.profiles.tables.rig import Timeouts
from rigproof.records.identity import DeviceKind
from rigproof.records.measurements import Event
from rigproof.records.recording import Record, Sample
from rigproof.telemetry.host import HostReader, host_addresses
from rigproof.telemetry.inventory import detect

# What Ray is asked for the first process on a GPU, which starts before it is known how many more come: the
# reservation that it is in holds the whole card. Ray counts GPUs in steps of 0.0001.
FIRST_SHARE = 0.0001

Sink = Callable[[Record | Sample], None]


@dataclass(frozen=True, slots=True)
class Place:
    """A worker's place, and what Ray reserves for it. `group`: its GPU's reservation; None for the CPU.

    `memory`: the settings of its allocator, if they are known before it is known which worker it is.
    """

    node: FoundNode
    group: Any | None
    gpu_share: float
    cpus: float
    memory: MemoryPlan | None = None

    @property
    def device(self) -> DeviceKind:
        return "cpu" if self.group is None else "cuda"


class Actors(Protocol):
    """Starts and ends a rig's actors. The objects it returns have methods with `.remote()`."""

    def agent(self, name: str, node: str, node_id: str, /) -> Any:
        """Start a node's agent."""

    def worker(self, name: str, place: Place, /) -> Any:
        """Start the process of a worker, which is told later by `become` which one it is."""

    def kill(self, actor: Any) -> None:
        """End an actor immediately."""


@dataclass(frozen=True, slots=True)
class Driving:
    """What all parts of the driver share. `prefix` begins the names of actors; `now_s` returns run time."""

    prefix: str
    timeouts: Timeouts
    sink: Sink
    now_s: Callable[[], float]
    actors: Actors
    _kills: list[Background[None]] = field(default_factory=list)  # that Ray may not have accepted yet

    def event(self, kind: str, subject: str, message: str, **data: object) -> None:
        """Record an event that happens now."""
        self.sink(Event(self.now_s(), kind, subject, message, data=data))

    def kill(self, poller: Poller) -> None:
        """Have Ray kill an actor, once it is there, without waiting."""
        self._kills.append(Background(poller.kill, "kill"))

    def wait_kills(self, timeout_s: float) -> None:
        """Wait until Ray has accepted the requests since the last wait; each has its part of the time."""
        kills = [*self._kills]
        self._kills.clear()
        for kill in kills:
            kill.done(timeout_s / len(kills))


class RayActors:
    """Actors of the Ray that this process is connected to, each created in the background."""

    def __init__(self) -> None:
        self._maker = Maker()

    def agent(self, name: str, _node: str, node_id: str, /) -> Any:
        """Start an agent as an actor that reserves no resources of its node."""
        return self.start(NodeAgent, agent_options(name, node_id))

    def worker(self, name: str, place: Place, /) -> Any:
        """Start a worker as an actor in its GPU's reservation, or on its node if the CPU is the device."""
        return self.start(RigproofWorker, worker_options(name, place), place.device, place.memory)

    def start(self, kind: type, options: Mapping[str, Any], *arguments: Any) -> Background[Any]:
        """Request an actor of this class; Ray creates it in its own time."""
        return self._maker.make(lambda: ray.remote(kind).options(**options).remote(*arguments))

    def kill(self, actor: Any) -> None:
        ray.kill(actor)


def agent_options(name: str, node_id: str) -> dict[str, Any]:
    """Ray's options of an agent's actor."""
    return _options(name, NodeAffinitySchedulingStrategy(node_id, soft=False), 0, 0)


def worker_options(name: str, place: Place) -> dict[str, Any]:
    """Ray's options of a worker's actor."""
    strategy: Any = NodeAffinitySchedulingStrategy(place.node.node_id, soft=False)
    if place.group is not None:
        strategy = PlacementGroupSchedulingStrategy(place.group, 0)
    return _options(name, strategy, place.cpus, place.gpu_share)


def _options(name: str, strategy: Any, cpus: float, gpus: float) -> dict[str, Any]:
    own = {"name": name, "num_cpus": cpus, "num_gpus": gpus}
    return own | {"max_restarts": 0, "scheduling_strategy": strategy}


class Watch(Protocol):
    """Reports which promised nodes have gone."""

    def news(self) -> dict[str, str]:
        """Nodes lost since the last call, with the reason."""

    def silent_s(self, now_s: float, /) -> float:
        """How long the source of the node list has not answered."""

    def begin_anew(self, now_s: float, /) -> None:
        """Forget the silence until now."""

    def look(self, timeout_s: float, /) -> None:
        """Look immediately, and wait at most `timeout_s` for the result."""

    def stop(self, timeout_s: float, /) -> None:
        """Stop watching."""


class Reserving(Protocol):
    """Reserves whole GPUs. `groups`, `cpus` and `first`, the first processes there, are by subject."""

    groups: dict[str, Any]
    cpus: dict[str, float]
    first: dict[str, Any]

    def begin(self, wanted: Iterable[WantedGpu], limit_s: float, /) -> None:
        """Request reservations for these GPUs, whose UUIDs are not known yet, without waiting for them."""

    def reserve(self, wanted: Sequence[WantedGpu], limit_s: float, /) -> dict[str, str]:
        """Reserve these GPUs. Returns the subjects that could not be reserved, with the reason."""

    def release(self, timeout_s: float, /) -> None:
        """Give all reservations back."""


class Ground(Protocol):
    """The place where a rig runs, as RigCluster needs it."""

    actors: Actors

    @property
    def opening(self) -> str:
        """What `open` does, for whoever waits for it; empty if it takes no time."""

    @property
    def up(self) -> bool:
        """Whether there is something to release."""

    def open(self) -> dict[str, FoundNode]:
        """Start the ground. Returns the promised nodes that are there, by name. Raises ClusterError."""

    def watch(self, found: Mapping[str, FoundNode], now_s: Callable[[], float], /) -> Watch:
        """Watch these nodes from now on."""

    def back(self, lost: Collection[str], /) -> dict[str, FoundNode]:
        """The lost nodes that are there again."""

    def reservations(self, workers: Sequence[WorkerPlan], found: Mapping[str, FoundNode], /) -> Reserving:
        """The reservations of the GPUs of these workers, which are on these nodes."""

    def pause(self, length_s: float, spent_s: float, starting: bool, /) -> None:
        """Wait for the end of a beat of `length_s`, of which `spent_s` of real time is over.

        `starting`: a process is starting, which takes its own time.
        """

    def last_lines(self) -> str:
        """The last lines of its own processes about what failed; empty if none, or if they are not ours."""

    def close(self, limit_s: float, ours: frozenset[ProcessId], /) -> tuple[ProcessId, ...]:
        """Release the ground. `ours` are processes that must be gone afterwards; returns those left."""


class RayGround:
    """A Ray of our own on this machine, or with `ray_address` a running cluster.

    `allow_open` also accepts a cluster without token authentication; `on_open` then gets its address.
    `gpus_here`: how many GPUs this machine has; None: they are counted when Ray is to know.
    """

    def __init__(
        self,
        loaded: LoadedRig,
        plan: Plan,
        *,
        prefix: str,
        ray_address: str | None,
        wait_nodes_s: float | None = None,
        allow_open: bool = False,
        gpus_here: int | None = None,
        on_open: Callable[[str], None] = lambda _address: None,
    ) -> None:
        timeouts = loaded.rig.timeouts
        self.actors: Actors = RayActors()
        self._loaded = loaded
        self._plan = plan
        self._prefix = prefix
        self._ray_address = ray_address
        self._allow_open = allow_open
        self._gpus_here = gpus_here
        self._on_open = on_open
        self._start_s = timeouts.start_s
        self._stall_s = timeouts.stall_s
        self._stop_s = timeouts.stop_s
        self._wait_nodes_s = min(timeouts.start_s, wait_nodes_s or timeouts.start_s)
        self._session: RaySession | None = None

    @property
    def opening(self) -> str:
        return "starting Ray" if self._ray_address is None else f"joining the Ray at {self._ray_address}"

    @property
    def up(self) -> bool:
        return self._session is not None

    def open(self) -> dict[str, FoundNode]:
        """Start or join Ray, and wait for the promised nodes.

        Raises:
            ClusterUnreachable, ClusterStartFailed: nothing started, and nothing is left of the attempt.
        """
        promised = self._loaded.rig.nodes
        here = None
        if self._ray_address is None:
            here = local_node(promised, socket.gethostname(), host_addresses())
            if here is not None:
                self._session = self._start_ray(here)
        else:
            self._session = self._join_ray(self._ray_address)
        if self._session is None:
            return {}
        # The other nodes of a local rig cannot join: our Ray cannot be reached from outside.
        wanted = [node for node in promised if here is None or node.name == here]
        return wait_for_nodes(wanted, self._wait_nodes_s)

    def watch(self, found: Mapping[str, FoundNode], now_s: Callable[[], float], /) -> Watch:
        """Watch these nodes by Ray's list of nodes, and by whether they can be reached."""
        # Half of what a worker may be silent for: the cause (the node) is reported before its workers.
        return NodeWatch(found, now_s, self._stall_s / 2)

    def back(self, lost: Collection[str], /) -> dict[str, FoundNode]:
        """The lost nodes that Ray lists now and that answer."""
        there = wait_for_nodes(self._loaded.rig.nodes, 0.0)
        return {name: node for name, node in there.items() if name in lost and answers(node)}

    def reservations(self, workers: Sequence[WorkerPlan], found: Mapping[str, FoundNode], /) -> Reserving:
        """Placement groups, each on the card that its first process finds there."""
        memory = memory_of(workers, found)

        def occupy(name: str, node: FoundNode, group: Any) -> Any:
            return self.actors.worker(name, Place(node, group, FIRST_SHARE, 0.0, memory.get(node.node_id)))

        return Reservations(self._prefix, occupy, self.actors.kill)

    def pause(self, length_s: float, spent_s: float, _starting: bool, /) -> None:
        """Sleep for the rest of the beat: real time passes by itself, also while a process starts."""
        time.sleep(max(0.0, length_s - spent_s))

    def last_lines(self) -> str:
        """The last lines of Ray's processes about what failed, if they are ours."""
        return "" if self._session is None else self._session.last_lines()

    def close(self, limit_s: float, ours: frozenset[ProcessId]) -> tuple[ProcessId, ...]:
        session, self._session = self._session, None
        return () if session is None else session.close(limit_s, ours)

    def _join_ray(self, address: str) -> RaySession:
        is_open = check_joinable(address, self._start_s, allow_open=self._allow_open)
        if is_open:
            self._on_open(address)
        return join(
            address,
            namespace=self._prefix,
            limit_s=self._start_s,
            stop_s=self._stop_s,
            open_cluster=is_open,
        )

    def _start_ray(self, here: str) -> RaySession:
        node = self._loaded.node(here)
        workers = [worker for worker in self._plan.workers if worker.node == here]
        needed = sum(worker.cpus for worker in workers)
        gpus = self._count_gpus() if cuda_gpus(node) else 0
        cpus = max(HostReader().usable_cpus(), needed + 1)
        return start_local(
            here,
            cpus=cpus,
            gpus=gpus,
            namespace=self._prefix,
            limit_s=self._start_s,
            stop_s=self._stop_s,
            stall_s=self._stall_s,
            in_advance=len(workers) + 1,  # and the agent
        )

    def _count_gpus(self) -> int:
        return len(detect(self._start_s / 2).gpus) if self._gpus_here is None else self._gpus_here


def memory_of(workers: Iterable[WorkerPlan], found: Mapping[str, FoundNode]) -> dict[str, MemoryPlan]:
    """The memory policy of the GPUs' workers of each node, by its id, as far as loading torch needs it.

    Nodes whose workers' policies differ in that are left out: which worker a process will be is not known.
    """
    policies: dict[str, dict[str, MemoryPlan]] = {}
    for worker in (one for one in workers if one.device == "cuda"):
        own = policies.setdefault(found[worker.node].node_id, {})
        own[allocator_options(worker.memory)] = worker.memory
    return {node_id: next(iter(own.values())) for node_id, own in policies.items() if len(own) == 1}
