"""What an agent of a simulated node reads on its grid: the real NVML code, in simulated time."""

from collections.abc import Callable, Collection, Mapping
from functools import partial

from rigproof.cluster.actors.gpu_readings import Silent, Watchers
from rigproof.cluster.actors.messages import AgentDuty
from rigproof.cluster.actors.sensing import SAMPLE
from rigproof.host.bounded import Background
from rigproof.host.cpu_users import CpuUsers
from rigproof.records.measurements import Event
from rigproof.records.processes import ProcessWatch
from rigproof.records.recording import Record, Sample
from rigproof.records.samples import GpuSample, PcieErrors
from rigproof.simulation.rig import SimulatedNode
from rigproof.telemetry.nvml.errors import GpuLost
from rigproof.telemetry.nvml.sampling import read_sample
from rigproof.telemetry.nvml.session import Nvml
from rigproof.telemetry.pcie_watch import PcieWatch
from rigproof.telemetry.process_watch import RATE_HZ

ANSWER_S = 5.0  # real time, enough on a busy machine: a simulated driver that takes longer never answers


class SimulatedSensing:
    """Reads when it is drained: every point of the grid from the last one up to now."""

    def __init__(
        self,
        node: SimulatedNode,
        duty: AgentDuty,
        nvml: Nvml | None,
        silent: Silent | None,
        now_s: Callable[[], float],
        *,
        own_pids: Callable[[], Collection[int]],
    ) -> None:
        self._node = node
        self._duty = duty
        self._nvml = nvml
        self._silent = silent
        self._now_s = now_s
        self._step_s = 1 / duty.rate_hz
        self._grid_s = now_s()
        self._hung_since_s: dict[str, float] = {}
        self._missed = 0
        self.loaded_percent: list[float] = []  # the host's CPU use at each grid point while the CPU load runs
        self.users: CpuUsers | None = None  # of a simulated host: its samples say what this run uses
        self.latest: Mapping[str, GpuSample] = {}  # a simulated host's last words are not kept
        self._xids = None
        if nvml is not None and duty.uuids:
            self._xids = nvml.xids(duty.uuids, lambda: self._grid_s, by_itself=False)
        self.supported = self._xids.supported if self._xids is not None else frozenset[str]()
        self._watchers: Watchers | None = None
        if duty.processes is not None and nvml is not None and silent is not None:
            self._watchers = Watchers(duty, duty.processes, nvml, silent, own_pids=own_pids, who=node.who)
        self._pcie = PcieWatch(duty.pci_bus_ids, node.pcie_errors)
        self._watched_s: float | None = None  # when the processes were last read on the grid
        self._at_start: list[Record] = []  # what the processes were before the grid's first point
        self._stopped = False

    def start(self) -> None:
        """Begin the grid now. Processes are read at once, since the load may begin before its first point."""
        self._grid_s = self._now_s()
        self._at_start = self._processes()

    def stop(self, timeout_s: float) -> None:
        """Do nothing, since nothing runs by itself here."""
        if self._xids is not None:
            self._xids.stop(timeout_s)
        self._stopped = True

    def watches(self) -> list[ProcessWatch]:
        return self._watchers.watches() if self._watchers is not None else []

    def pcie_errors(self) -> list[PcieErrors]:
        return self._pcie.now(self._now_s())

    def drain(self) -> list[Sample | Record]:
        found: list[Sample | Record] = [*self._at_start]
        self._at_start = []
        while self._grid_s + self._step_s <= self._now_s():
            self._grid_s += self._step_s
            self._node.show(self._grid_s)
            sample = self._node.host.sample(self._grid_s, self._step_s, self._node.stages)
            if sample is None:
                self._missed += 1
                continue
            found.append(sample)
            found += self._pcie.when_due(self._grid_s)
            if self._node.host.load_percent is not None:
                self.loaded_percent.append(sample.cpu_percent or 0.0)
            found += self._gap()
            for uuid, subject in self._duty.uuids.items():
                if not self._node.silent(subject, self._grid_s):
                    found += self._gpu(uuid, subject)
            found += self._look()
            while self._xids is not None and self._node.driver.xids and self._xids.hear(0):
                found += self._xids.drain()
        if self._nvml is not None:
            found += self._nvml.problems()
        return [*found, *self.watches()] if self._stopped else found

    def _look(self) -> list[Record]:
        """Changes among the GPUs' processes since they were last read, if the next reading is due."""
        due_s = -1.0 if self._watched_s is None else self._watched_s + 1 / RATE_HZ
        if self._grid_s < due_s - self._step_s / 2:
            return []
        self._watched_s = self._grid_s
        return self._processes()

    def _processes(self) -> list[Record]:
        """Changes among the GPUs' processes since they were last read."""
        if self._watchers is None:
            return []
        subjects = [one for uuid, one in self._duty.uuids.items() if uuid not in self._hung_since_s]
        return [record for one in subjects for record in self._watchers.read(one, self._grid_s)]

    def _gap(self) -> list[Event]:
        missed, self._missed = self._missed, 0
        if not missed:
            return []
        message = f"{missed} grid points passed without a reading"
        return [Event(self._grid_s, "sampling_gap", self._duty.node, message, data={"missed": missed})]

    def _gpu(self, uuid: str, subject: str) -> list[GpuSample | Event]:
        if self._nvml is None or self._silent is None:
            return []
        since_s = self._hung_since_s.get(uuid)
        if since_s is not None:
            late = self._grid_s - since_s > self._duty.stuck_s
            return list(self._silent.hung(uuid, subject, SAMPLE, self._duty.stuck_s)) if late else []
        try:
            gpu = self._nvml.gpu(uuid, subject, self._grid_s)
            return self._answered(uuid, partial(read_sample, gpu, 0.0))
        except GpuLost as error:
            return list(self._silent.lost(error, SAMPLE))

    def _answered(self, uuid: str, read: Callable[[], GpuSample]) -> list[GpuSample | Event]:
        """The reading; nothing if the driver does not return."""
        if not self._node.may_hang:
            return [read()]
        reading = Background(read, "simulated-nvml")
        if not reading.done(ANSWER_S):
            self._hung_since_s[uuid] = self._grid_s
        if reading.error is not None:
            raise reading.error
        return list(reading.results())
