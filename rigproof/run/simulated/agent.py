"""The node agent of a simulated node: the real one, on a simulated driver, in simulated time."""

import dataclasses
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from rigproof.cluster.actors.agent import NodeAgent
from rigproof.cluster.actors.messages import AgentDuty, AgentFacts, AgentReply
from rigproof.host.cpu_band import HostLoad
from rigproof.host.offers import Offers
from rigproof.host.processes import ProcessId
from rigproof.records.measurements import Event
from rigproof.run.simulated.memory import SimulatedMemory, last_words
from rigproof.run.simulated.sensing import SimulatedSensing
from rigproof.simulation.faults.injected import StageWindow
from rigproof.simulation.rig import SimulatedRig

OPEN_S = 30.0  # for the simulated driver to be opened or closed, real time: it answers at once
OTHERS_PERCENT = 6.0  # of the CPU, used by all but the load
GIVES_WAY_PERCENT = 5.0  # how far over its target the load yields completely


class SimulatedAgent(NodeAgent):
    """Every call comes through `at`, which sets the time and the stages.

    `process` is the process that it reports to be; None: the one that it runs in.
    """

    def __init__(self, rig: SimulatedRig, name: str, process: ProcessId | None = None) -> None:
        self._simulated = rig.node(name)
        self._t_s = 0.0
        with self._simulated.library.active():
            super().__init__(visible_devices=lambda: self._simulated.visible_devices)
            self._opening.done(OPEN_S)
        self._host = self._simulated.host
        self._simulated_load: HostLoad | None = None
        if process is not None:
            self._process = process

    def at(self, t_s: float, stages: Sequence[StageWindow], method: str, arguments: Sequence[Any]) -> Any:
        """Call one of its methods at run time `t_s`."""
        self._t_s, self._simulated.stages = t_s, stages
        with self._simulated.library.active():
            return getattr(self, method)(*arguments)

    act = at

    def let_go(self) -> None:
        """Close its NVML, on its own driver; a second time it does nothing."""
        with self._simulated.library.active():
            self._open.close()

    def clock(self) -> float:
        """Run time, s: all simulated nodes share the clock of the run."""
        return self._t_s

    def finish(self, timeout_s: float) -> AgentReply:
        """As the real one, but NVML is closed when it returns: later, pynvml reads another node's driver."""
        return super().finish(max(timeout_s, OPEN_S))

    def facts(self, node: str, gpu_promised: bool, limit_s: float) -> AgentFacts:
        """The inventory of the simulated node."""
        return dataclasses.replace(super().facts(node, gpu_promised, limit_s), hostname=self._simulated.name)

    def adopt(self, process: ProcessId) -> None:
        """Register a worker. From now on the simulated NVIDIA driver lists its process."""
        super().adopt(process)
        if process.pid not in self._simulated.own_pids:
            self._simulated.own_pids.append(process.pid)

    def free_ports(self, _address: str, count: int) -> tuple[int, ...]:
        """Any numbers, since all ports of a simulated host are free."""
        return tuple(range(1, count + 1))

    def start_host_load(self, load: HostLoad) -> None:
        """Set the simulated host to the load's target."""
        self.stop_host_load()
        self._simulated_load = load
        self._simulated.host.load_percent = load.target_percent
        message = (
            f"{load.primary_threads} primary and {load.secondary_threads} secondary threads "
            f"aim at {load.target_percent:g} % of the CPU"
        )
        self._tell(load, message)

    def stop_host_load(self) -> None:
        """End the load, if there is one, and report what it did."""
        load, self._simulated_load = self._simulated_load, None
        self._simulated.host.load_percent = None
        if load is not None:
            read = self._sensing.loaded_percent if isinstance(self._sensing, SimulatedSensing) else ()
            self._tell(load, "the CPU load has ended", read)

    def _tell(self, load: HostLoad, message: str, read_percent: Sequence[float] = ()) -> None:
        own_percent, foreign_percent = _used(read_percent or [load.target_percent], load.target_percent)
        data = {
            "threads": load.threads,
            "primary_threads": load.primary_threads,
            "secondary_threads": load.secondary_threads,
            "target_percent": load.target_percent,
            "share": (load.target_percent - OTHERS_PERCENT) / 100,
            "own_percent": own_percent,
            "foreign_percent": foreign_percent,
            "short_cpus": 0.0,
            "error": None,
            "foreign": self._simulated.host.foreign(),
        }
        self._records.append(Event(self._t_s, "host_load", self._simulated.name, message, data=data))

    def _oom_kills(self) -> None:
        """None: nobody counts them on a simulated host."""

    def _offers(self) -> Offers:
        return self._simulated.host.offers()

    def _sense(self, duty: AgentDuty) -> SimulatedSensing:
        return SimulatedSensing(
            self._simulated, duty, self._nvml, self._silent, self._now_s, own_pids=self._own_pids
        )

    def _remember(self, _node: str, _run_id: str, /) -> SimulatedMemory:
        return SimulatedMemory(self._simulated, self._now_s)

    def _look_back(self, _node: str, run_id: str, _t_s: float, /) -> list[Event]:
        return last_words(self._simulated, self._nvml, run_id, self._t_s)

    def _now_s(self) -> float:
        return self._t_s


def _used(read_percent: Sequence[float], target_percent: float) -> tuple[float, float]:
    """Mean CPU use of the load and of all others: the load yields to the others."""
    own = [
        max(0.0, one - OTHERS_PERCENT) if one <= target_percent + GIVES_WAY_PERCENT else 0.0
        for one in read_percent
    ]
    return fmean(own), fmean(read_percent) - fmean(own)
