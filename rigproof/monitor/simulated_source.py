"""The monitor's readings of a simulated rig: its nodes' agents in this process, its stages over and over."""

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

from rigproof.cluster.actors.messages import AgentDuty, AgentFacts
from rigproof.host.processes import ProcessId
from rigproof.monitor.following import Follower
from rigproof.monitor.gathering import Gathering
from rigproof.profiles.auto import completed
from rigproof.profiles.errors import ProfileError
from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import Plan
from rigproof.profiles.planning.planning import make_plan
from rigproof.profiles.tables.level_names import LevelName
from rigproof.run.simulated.actors import FIRST_PID
from rigproof.run.simulated.agent import SimulatedAgent
from rigproof.run.simulated.making import simulated_rig
from rigproof.simulation.faults.injected import StageWindow
from rigproof.simulation.inventory import simulated_inventory
from rigproof.simulation.rig import SimulatedRig

LEVEL: LevelName = "standard"  # whose stages are simulated
REST_S = 5.0  # before each stage, without load
FACTS_LIMIT_S = 15.0


class SimulatedPort:
    """The agent of one simulated node. `lock`: all share the bindings of NVML, so one is called at a time."""

    alive = True
    clock_offset_s = 0.0  # a simulated agent's clock is the gathering's

    def __init__(
        self,
        rig: SimulatedRig,
        node: str,
        gathering: Gathering,
        now_s: Callable[[], float],
        lock: threading.Lock,
    ) -> None:
        self._plan = rig.plan
        self._gathering = gathering
        self._now_s = now_s
        self._lock = lock
        with lock:
            self._agent = SimulatedAgent(rig, node, ProcessId(FIRST_PID, 0))
        workers = sum(worker.node == node for worker in rig.plan.workers)
        for pid in range(FIRST_PID + 1, FIRST_PID + 1 + workers):
            self._call("adopt", ProcessId(pid, 0))

    def facts(self, node: str, gpu_promised: bool) -> AgentFacts | None:
        """What the node has."""
        found: AgentFacts = self._call("facts", node, gpu_promised, FACTS_LIMIT_S)
        return found

    def begin(self, duty: AgentDuty) -> frozenset[str]:
        """Sample from now on."""
        heard: frozenset[str] = self._call("begin", duty)
        return heard

    def poll(self) -> bool:
        """Take what was gathered."""
        for record in self._call("poll").records:
            self._gathering.add(record)
        return True

    def counters(self, limit_s: float) -> None:
        """Read the error counters."""
        self._call("counters", "after", limit_s)

    def close(self, limit_s: float) -> None:
        """End it."""
        self._call("finish", limit_s)
        with self._lock:
            self._agent.let_go()

    def _call(self, method: str, *arguments: Any) -> Any:
        with self._lock:
            now_s = self._now_s()
            return self._agent.act(now_s, windows(self._plan, now_s), method, arguments)


class SimulatedSource:
    """Watches a simulated rig, whose stages run one after the other, over and over, in real time.

    Raises on creation:
        ProfileError, NotSimulated: there is no such rig to simulate.
    """

    name = "SIMULATED rig"

    def __init__(
        self, loaded: LoadedRig, inject: Sequence[str], gathering: Gathering, now_s: Callable[[], float]
    ) -> None:
        self._loaded = completed(loaded, simulated_inventory(loaded))
        if problems := lint_rig(self._loaded, LEVEL):
            raise ProfileError(problems)
        self._rig = simulated_rig(self._loaded, make_plan(self._loaded, LEVEL), inject, 0)
        self._gathering = gathering
        self._now_s = now_s
        self._lock = threading.Lock()
        self._followers: list[Follower] = []

    @property
    def settled(self) -> bool:
        """Whether all nodes are being sampled."""
        return bool(self._followers) and all(one.begun or one.ended for one in self._followers)

    def open(self) -> None:
        """Begin."""
        for node in self._loaded.rig.nodes:
            self._gathering.promise(self._loaded, node.name)
            port = SimulatedPort(self._rig, node.name, self._gathering, self._now_s, self._lock)
            follower = Follower(node.name, self._loaded, port, self._gathering, self._now_s)
            self._followers.append(follower)

    def close(self, limit_s: float) -> None:
        """End it."""
        for follower in self._followers:
            follower.ask_to_stop()
        for follower in self._followers:
            follower.stop(limit_s / len(self._followers))


def windows(plan: Plan, now_s: float) -> tuple[StageWindow, ...]:
    """The stages that have begun by run time `now_s`, with a rest before each."""
    begun: list[StageWindow] = []
    start_s = 0.0
    round_s = sum(REST_S + stage.expected_s for stage in plan.stages)
    for _ in range(math.floor(now_s / round_s) + 1):
        for stage in plan.stages:
            start_s += REST_S
            if start_s > now_s:
                return tuple(begun)
            begun.append(StageWindow(stage.name, start_s, stage.expected_s))
            start_s += stage.expected_s
    return tuple(begun)
