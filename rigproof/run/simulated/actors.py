"""How a simulated rig's actors are started and called, in simulated time."""

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from rigproof.cluster.driver.ground import Place, RayActors, agent_options, worker_options
from rigproof.cluster.ray.calls import LocalActorDied, LocalCall
from rigproof.host.bounded import Background
from rigproof.host.processes import ProcessId
from rigproof.run.simulated.agent import SimulatedAgent
from rigproof.run.simulated.worker import SimulatedWorker
from rigproof.simulation.faults.injected import SimulatedClock
from rigproof.simulation.rig import SimulatedRig
from rigproof.simulation.work.task import WorkerFrozen, WorkerKilled

FIRST_PID = 2**22 + 1  # above the highest that Linux assigns, so that no real process ever has it


class Method:
    """A method of an actor that is called as Ray's are: `remote` passes the simulated time with the call."""

    def __init__(self, call: Callable[..., Any], clock: SimulatedClock, name: str) -> None:
        self._call = call
        self._clock = clock
        self._name = name

    def remote(self, *arguments: Any) -> Any:
        return self._call(self._clock.now_s(), self._clock.stages, self._name, arguments)


class TimedActor:
    """An actor of Ray to which every call carries the simulated time."""

    def __init__(self, actor: Any, clock: SimulatedClock) -> None:
        self.actor = actor
        self._clock = clock

    def __getattr__(self, name: str) -> Method:
        return Method(self.actor.at.remote, self._clock, name)


class TimedActors(RayActors):
    """The simulated rig's agents and workers as actors of Ray."""

    def __init__(self, rig: SimulatedRig, clock: SimulatedClock) -> None:
        super().__init__()
        self._rig = rig
        self._clock = clock

    def agent(self, name: str, node: str, node_id: str, /) -> Background[Any]:
        return self.start(SimulatedAgent, agent_options(name, node_id), self._rig, node)

    def worker(self, name: str, place: Place, /) -> Background[Any]:
        return self.start(SimulatedWorker, worker_options(name, place), self._rig, place.node.name)

    def start(self, kind: type, options: Mapping[str, Any], *arguments: Any) -> Background[Any]:
        """Request an actor; every call to it carries the time."""
        actor = super().start(kind, options, *arguments)

        def timed() -> TimedActor:
            actor.done(None)
            if actor.error is not None:
                raise actor.error
            return TimedActor(actor.result(None), self._clock)

        return Background(timed, "timed")

    def kill(self, actor: TimedActor) -> None:
        super().kill(actor.actor)


class LocalActor:
    """An object of this process that is called like an actor."""

    def __init__(self, target: Any, clock: SimulatedClock) -> None:
        self._target = target
        self._clock = clock
        self._ended: LocalActorDied | None = None
        self._frozen = False

    def __getattr__(self, name: str) -> Method:
        return Method(self._call, self._clock, name)

    def end(self, why: str) -> None:
        """Answer every call from now on with an error that says `why` the actor is gone."""
        self._ended = self._ended or LocalActorDied(why)

    def _call(self, *call: Any) -> LocalCall:
        if self._frozen and self._ended is None:
            return LocalCall(pending=True)
        if self._ended is None:
            try:
                return LocalCall(self._target.act(*call))
            except WorkerKilled:
                self.end("Worker exit type: SYSTEM_ERROR Worker exit detail: killed by signal 9.")
            except WorkerFrozen:
                self._frozen = True
                return LocalCall(pending=True)
        return LocalCall(self._ended)


class LocalActors:
    """The simulated rig's agents and workers in this process, without Ray."""

    def __init__(self, rig: SimulatedRig, clock: SimulatedClock) -> None:
        self._rig = rig
        self._clock = clock
        self._pids = count(FIRST_PID)
        self._agents: list[SimulatedAgent] = []

    def agent(self, _name: str, node: str, _node_id: str, /) -> LocalActor:
        agent = SimulatedAgent(self._rig, node, ProcessId(next(self._pids), 0))
        self._agents.append(agent)
        return LocalActor(agent, self._clock)

    def worker(self, _name: str, place: Place, /) -> LocalActor:
        process = ProcessId(next(self._pids), 0)
        return LocalActor(SimulatedWorker(self._rig, place.node.name, process), self._clock)

    def kill(self, actor: LocalActor) -> None:
        """End an actor: every later call to it is answered with an error."""
        actor.end("killed")

    def close(self) -> None:
        """Release the drivers, as the end of an agent's process would, including those of lost agents."""
        for agent in self._agents:
            agent.let_go()
        self._agents.clear()
