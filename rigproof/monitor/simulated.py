"""The monitor on a simulated rig: its nodes' agents in this process, its stages over and over."""

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rigproof.host.processes import ProcessId
from rigproof.monitor.following import Nodes
from rigproof.monitor.gathering import Gathering
from rigproof.monitor.local import LocalPort
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
from rigproof.simulation.host import simulated_inventory

LEVEL: LevelName = "standard"  # whose stages are simulated
REST_S = 5.0  # before each stage, without load


def simulated(
    loaded: LoadedRig, inject: Sequence[str], gathering: Gathering, now_s: Callable[[], float]
) -> Nodes:
    """The nodes of a simulated rig, whose stages run one after the other, over and over, in real time.

    Stages that measure the hosts are left out, since there is nothing to see of them.

    Raises:
        ProfileError, NotSimulated: there is no such rig to simulate.
    """
    whole = completed(loaded, simulated_inventory(loaded))
    if problems := lint_rig(whole, LEVEL):
        raise ProfileError(problems)
    plan = make_plan(whole, LEVEL)
    rig = simulated_rig(whole, plan, inject, 0)
    seen = replace(plan, stages=tuple(one for one in plan.stages if whole.kinds[one.name].duty != "idle"))
    lock = threading.Lock()  # all agents share the bindings of NVML, so one is called at a time

    def port(node: str, _number: int) -> LocalPort:
        with lock:
            agent = SimulatedAgent(rig, node, ProcessId(FIRST_PID, 0))

        def call(method: str, *given: Any) -> Any:
            with lock:
                t_s = now_s()
                return agent.act(t_s, windows(seen, t_s), method, given)

        workers = sum(worker.node == node for worker in plan.workers)
        for pid in range(FIRST_PID + 1, FIRST_PID + 1 + workers):
            call("adopt", ProcessId(pid, 0))
        return LocalPort(gathering, 0.0, call)  # the agent's clock is the gathering's

    return Nodes("SIMULATED rig", whole, lambda: {node.name: "" for node in whole.rig.nodes}, port)


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
