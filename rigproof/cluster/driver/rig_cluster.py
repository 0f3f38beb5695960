"""The rig during a run: starts Ray, one agent per node and one worker per plan entry, and takes them down."""

import dataclasses
import random
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from types import TracebackType
from typing import Literal, Self

from rigproof.cluster.actors.messages import AgentDuty, AgentFacts
from rigproof.cluster.driver.agents import Agents
from rigproof.cluster.driver.ground import Driving, Ground, RayGround, Reserving, Sink, Watch
from rigproof.cluster.driver.presence import (
    gpus_there,
    missing_driver,
    missing_node,
    skipped,
    way_back,
    without_driver,
)
from rigproof.cluster.driver.stage_loop import Polling, StageRun
from rigproof.cluster.driver.workers import Workers
from rigproof.cluster.launch.commands import head_of
from rigproof.cluster.ray.matching import FoundNode
from rigproof.cluster.ray.placement import wanted_gpus
from rigproof.cluster.ray.preconditions import ClusterError, ClusterStartFailed, ClusterUnreachable
from rigproof.devices.further import Further
from rigproof.devices.specs import Spec
from rigproof.host.cpu_band import HostLoad
from rigproof.host.processes import ProcessId, own_process
from rigproof.host.run_lock import Claim, HostLock
from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.loading.load import all_skus
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.loading.matching import sku_of
from rigproof.profiles.planning.plan import Plan
from rigproof.records.crews import Crew, Turn
from rigproof.records.identity import GpuIdentity, HostInventory
from rigproof.records.measurements import Stage
from rigproof.records.processes import ProcessLimits
from rigproof.records.recording import Record, Sample
from rigproof.records.verdict import count_of

__all__ = ["ClusterError", "ClusterStartFailed", "ClusterUnreachable", "HostLoad", "RigCluster"]

OPEN_SAID = (
    "the cluster has no token authentication: anyone who can reach it could run code on its nodes and change "
    "what was measured; it was joined because of --hw-allow-open-cluster"
)
START_TICK_S = 0.1
LOOK_S = 2.0  # between two looks at whether another run of a host has ended, on average
SESSION_SHARE = 0.6  # of the time for taking down: Ray itself; the rest is for our actors

Say = Callable[[str], None]


def say_nothing(_text: str) -> None:
    """Show a message to nobody."""


class RigCluster:
    """Owns everything that a run starts. Records go to `sink`, in the thread that calls in here.

    A context manager: entering starts the part of the promised rig that is there and records what is missing
    as events; leaving always takes down what is ours and nothing else.

    `run_id`: the nodes keep their last words on their disks under this id; None: they keep none.
    `allow_open`: also join a cluster without token authentication; an event then reports it.
    `say` is called with each thing that takes seconds while the rig is brought up, `ended` with the name of
    each part that is over. `here`: what was found on this machine, if that is known already.
    `claim`: this run has each of its hosts to itself, and waits for at most `wait_s` for other runs to end;
    None: it does not care.

    Raises on entering:
        ClusterUnreachable, ClusterStartFailed: nothing started, and nothing is left of the attempt.
        ClusterError: another run has one of the hosts; neither is anything left.
    """

    def __init__(
        self,
        loaded: LoadedRig,
        plan: Plan,
        *,
        ray_address: str | None,
        sink: Sink,
        now_s: Callable[[], float],
        wait_nodes_s: float | None = None,
        allow_open: bool = False,
        run_id: str | None = None,
        ground: Ground | None = None,
        say: Say = say_nothing,
        ended: Say = say_nothing,
        here: HostInventory | None = None,
        claim: Claim | None = None,
        wait_s: float = 0.0,
    ) -> None:
        timeouts = loaded.rig.timeouts
        self._loaded = loaded
        self._plan = plan
        self._ray_address = ray_address
        # Simulated nodes are looked for, as in a cluster.
        self._cluster = ray_address if ground is None else head_of(loaded.rig.nodes)
        self._alone = ray_address is None and ground is None
        self._here = here
        self._sink = sink
        self._now_s = now_s
        self._run_id = run_id
        self._claim = claim
        self._wait_s = wait_s
        self._host_lock = HostLock()
        self._say = say
        self._ended = ended
        self._start_s = timeouts.start_s
        self._stop_s = timeouts.stop_s
        prefix = f"rigproof-{uuid.uuid4().hex[:8]}"
        self._ground: Ground = ground or RayGround(
            loaded,
            plan,
            prefix=prefix,
            ray_address=ray_address,
            wait_nodes_s=wait_nodes_s,
            allow_open=allow_open,
            gpus_here=None if here is None else len(here.gpus),
            on_open=lambda address: self._driving.event("open_cluster", "rig", OPEN_SAID, address=address),
        )
        self._watch: Watch | None = None
        self._reservations: Reserving | None = None
        self._driving = Driving(prefix, timeouts, sink, now_s, self._ground.actors)
        self._agents = Agents(self._driving)
        self._workers = Workers(self._driving, self._agents, loaded.kinds)
        self._polling: Polling | None = None
        self.ready_s: float | None = None  # how long the start took

    def __enter__(self) -> Self:
        begun_s = time.monotonic()
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        self.ready_s = time.monotonic() - begun_s
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def ready(self, on_tick: Callable[[], None] | None = None) -> frozenset[str]:
        """The names of the workers that can take a task, once those that are starting have started."""
        if self._polling is None:
            return frozenset()
        self._polling.until_up(on_tick, START_TICK_S)
        return frozenset(name for name in self._workers.slots if self._workers.ready(name))

    def run_stage(
        self,
        stage: StagePlan,
        specs: Mapping[str, Spec],
        turns: Sequence[Turn] = (),
        *,
        lap: int = 1,
        further: Callable[[], Further | None] = lambda: None,
        host_load: Mapping[str, HostLoad] | None = None,
        ahead: Mapping[str, int] = {},
        on_tick: Callable[[], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> Stage:
        """Run the specs (by worker) turn by turn, the CPU loads (by node) beside them, until all have ended.

        Without `turns` all work at the same time, each by itself. `further`: as of StageRun. By `ahead`,
        workers also make so many processes ready, which later stages will use.

        Every record reaches the sink while it runs. `on_tick` is called twice a second or more often; the
        stage ends early once `should_stop` returns true. It ends at the latest `task_s` after its
        planned end.
        """
        if self._polling is None:  # no promised node is here, or nothing on it that could work
            failed = Stage(stage.name, self._now_s(), self._now_s(), "failed", lap=lap)
            self._sink(failed)
            return failed
        self._polling.until_up(on_tick, START_TICK_S)
        turns = turns or (tuple(Crew(name, (name,)) for name in specs),)
        run = StageRun(
            self._polling, stage, specs, turns, host_load or {}, ahead=ahead, lap=lap, further=further
        )
        return run.run(on_tick, should_stop)

    def read_counters(self, moment: Literal["before", "after"]) -> None:
        """Read every GPU's error counters into the sink ("before" is done on entering).

        Afterwards, nodes that were lost and have returned are asked whether they restarted.
        """
        if self._polling is not None:
            self._agents.read("counters", moment, self._stop_s)
            self._polling.gather(self._stop_s / 4)
            if moment == "after" and self._polling.lost and self._run_id is not None:
                self._agents.came_back(self._ground.back(self._polling.lost), self._run_id, self._stop_s)

    def close(self) -> None:
        """Take everything of ours down, however the run went. Can be called again."""
        try:
            if self._ground.up:
                self._take_down()
        finally:
            self._host_lock.release()

    def _take_down(self) -> None:
        left: tuple[ProcessId, ...] = ()
        try:
            self._end_actors()
        finally:
            ours = frozenset(self._agents.ever | self._workers.ever)
            left = self._ground.close(SESSION_SHARE * self._stop_s, ours)
            if left:
                pids = [process.pid for process in left]
                message = f"processes {pids} did not end; the kernel holds them (a hung driver?)"
                self._driving.event("timeout", "rig", message, limit_s=self._stop_s, pids=pids)

    def _open(self) -> None:
        if self._alone and self._here is not None and (node := without_driver(self._loaded, self._here)):
            # A Ray, agents and workers would find that out once more.
            clock_offset_s = self._now_s() - time.monotonic()
            self._sink_all(missing_driver(self._loaded, node, self._here, clock_offset_s, self._now_s()))
            return
        if self._claim is not None and self._ray_address is None:  # nothing of ours disturbs whom we wait for
            take_alone(self._take_this_host, self._wait_s, self._say)
        if self._ground.opening:
            self._say(self._ground.opening)
        found = self._ground.open()
        self._ended("ray")
        for node in self._loaded.rig.nodes:
            if node.name not in found:
                self._sink_all(missing_node(self._loaded, node, self._cluster, self._now_s()))
        if found:
            self._bring_up(found)

    def _take_this_host(self) -> dict[str, Claim | str]:
        """Take the lock of this host. Returns the run that has it, by what a sentence calls the host."""
        assert self._claim is not None
        holder = self._host_lock.take(self._claim)
        return {} if holder is None else {"this host": holder}

    def _bring_up(self, found: Mapping[str, FoundNode]) -> None:
        self._watch = self._ground.watch(found, self._now_s)
        planned = [worker for worker in self._plan.workers if worker.node in found]
        self._say(
            f"starting the agent{_s(found)} of {count_of(len(found), 'nodes')}, "
            f"and {count_of(len(planned), 'workers')}"
        )
        self._agents.begin_start(found)
        # The workers' processes load torch while the agents start and look at their hosts.
        self._workers.begin_start(worker for worker in planned if worker.device == "cpu")
        self._reservations = self._ground.reservations(planned, found)
        self._reservations.begin(wanted_gpus(planned, found), self._start_s)
        with_gpu = {device.node for device in self._loaded.devices() if device.gpu.device == "cuda"}
        facts = self._agents.start(with_gpu, self._ground.last_lines)
        self._ended("agents")
        if (claim := self._claim) is not None and self._ray_address is not None:
            take_alone(lambda: self._agents.take_hosts(claim, self._stop_s), self._wait_s, self._say)
        skus = all_skus(self._loaded.kinds)
        gpus, missing = gpus_there(self._loaded, facts, sku_of(skus), self._now_s())
        self._sink_all(missing)
        heard = self._agents.begin(self._duties(facts, gpus), self._start_s)
        for subject, gpu in gpus.items():
            self._sink(dataclasses.replace(gpu, xid_supported=subject in heard))
        self._ended("sampling")
        self._polling = Polling(
            self._driving,
            self._agents,
            self._workers,
            self._watch,
            pause=self._ground.pause,
            next_step=lambda name: way_back(self._loaded.node(name), self._cluster),
        )
        self._agents.read("foreign_memory", frozenset[int](), self._stop_s)
        self._polling.gather(self._stop_s / 4)
        self.read_counters("before")
        left_alone = skipped(gpus, self._agents.foreign, self._plan, self._now_s())
        self._sink_all(left_alone.values())
        self._ended("readings")
        gpus = {subject: gpu for subject, gpu in gpus.items() if subject not in left_alone}
        refused = self._reserve(self._reservations, found, gpus)
        self._ended("reservations")
        plans = [
            worker
            for worker in planned
            if worker.node in facts
            and worker.subject not in refused
            and (worker.device == "cpu" or worker.subject in gpus)
        ]
        self._say(f"waiting for {len(plans)} worker{_s(plans)} to open their devices")
        reserved = self._reservations
        self._workers.start(plans, reserved.groups, reserved.cpus, reserved.first)
        self._polling.until_up(None, START_TICK_S)
        self._ended("workers")

    def _duties(
        self, facts: Mapping[str, AgentFacts], gpus: Mapping[str, GpuIdentity]
    ) -> dict[str, AgentDuty]:
        rate_hz, stuck_s = self._loaded.rig.sampling.rate_hz, self._loaded.rig.timeouts.stall_s
        node_of = {device.subject: device.node for device in self._loaded.devices()}
        return {
            node: AgentDuty(
                node=node,
                clock_offset_s=self._agents.links[node].clock_offset_s,
                rate_hz=rate_hz,
                stuck_s=stuck_s,
                uuids={gpu.uuid: subject for subject, gpu in gpus.items() if node_of[subject] == node},
                run_id=self._run_id,
                processes=_watched(self._loaded),
                pci_bus_ids={
                    subject: gpu.pci_bus_id or "" for subject, gpu in gpus.items() if node_of[subject] == node
                },
                driver=own_process(),
            )
            for node in facts
        }

    def _reserve(
        self, reservations: Reserving, found: Mapping[str, FoundNode], gpus: Mapping[str, GpuIdentity]
    ) -> dict[str, str]:
        """Reserve the promised GPUs. Returns the subjects that could not be reserved, with the reason."""
        uuids = {subject: gpu.uuid for subject, gpu in gpus.items()}
        wanted = wanted_gpus([one for one in self._plan.workers if one.subject in uuids], found, uuids)
        refused = reservations.reserve(wanted, self._start_s)
        for subject, reason in refused.items():
            message = f"could not be reserved: {reason}"
            self._driving.event("gpu_taken", subject, message, limit_s=self._start_s)
        return refused

    def _end_actors(self) -> None:
        """Collect the last records and end all our actors; a hung call uses up only its own deadline."""
        share_s = (1 - SESSION_SHARE) * self._stop_s / 8
        if self._watch is not None:
            self._watch.stop(0.1)
        self._workers.stop_tasks()
        try:
            if self._polling is not None:
                last = self._agents.finish()
                self._polling.gather(share_s)
                self._agents.finished(last, 4 * share_s)
        finally:
            self._workers.end()
            self._driving.wait_kills(share_s)
            self._agents.end()
            self._driving.wait_kills(share_s)
            if self._reservations is not None:
                self._reservations.release(share_s)
            self._polling = None

    def _sink_all(self, records: Iterable[Record | Sample]) -> None:
        for record in records:
            self._sink(record)


def take_alone(
    take: Callable[[], Mapping[str, Claim | str]], wait_s: float, say: Callable[[str], None]
) -> None:
    """Take all hosts of a run, waiting at most `wait_s` for their other runs to end.

    `take` takes all of them or none: it returns the runs that have some, by host.

    Raises:
        ClusterError: another run has one of them. Two would halve each other's rates, and call each other
            strangers.
    """
    end_s, said = time.monotonic() + wait_s, ""
    while held := take():
        runs = "; ".join(f"{host} is under test by {run}" for host, run in held.items())
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            waited = f" (waited {wait_s:g} s)" if wait_s else ""
            raise ClusterError(
                f"{runs}{waited}: two runs at once on a host would halve each other's rates; run again when "
                "it has ended, or add --hw-wait to wait for it"
            )
        if runs != said:
            said = runs
            say(f"waiting: {runs}")
        # Not in step with others that wait, each of which might take a host that another one needs.
        time.sleep(min(left_s, LOOK_S * random.uniform(0.5, 1.5)))  # noqa: S311 - no secret


def _s(counted: Sized) -> str:
    return "" if len(counted) == 1 else "s"


def _watched(loaded: LoadedRig) -> ProcessLimits | None:
    """The changes of processes that are reported; None if the profile has no limits for them."""
    growth_mib, sm_percent = loaded.rig.limits.stranger_growth_mib, loaded.rig.limits.stranger_sm_percent
    return None if growth_mib is None or sm_percent is None else ProcessLimits(growth_mib, sm_percent)
