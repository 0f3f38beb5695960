"""What an agent reads on its grid: each GPU and the host, each in its own thread.

One thread each, because a GPU whose driver hangs must not stop the readings of the others. The processes on
each GPU are read about once a second, in a thread of their own: a process list takes some 5 ms in which the
driver answers no other query, so it is read half-way between two points of the grid.
"""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from rigproof.cluster.actors.gpu_readings import PROCESSES, Silent, Watchers
from rigproof.cluster.actors.messages import AgentDuty
from rigproof.host.cpu_users import CpuUsers
from rigproof.host.pcie_errors import pcie_errors
from rigproof.host.processes import alive
from rigproof.records.measurements import Event
from rigproof.records.processes import ProcessWatch
from rigproof.records.recording import Record, Sample
from rigproof.records.samples import GpuSample, PcieErrors
from rigproof.telemetry.host import HostReader
from rigproof.telemetry.nvml.errors import GpuLost
from rigproof.telemetry.nvml.sampling import read_sample
from rigproof.telemetry.nvml.session import Nvml
from rigproof.telemetry.pcie_watch import PcieWatch
from rigproof.telemetry.process_watch import RATE_HZ as PROCESSES_HZ
from rigproof.telemetry.responsiveness import ResponsivenessProbe
from rigproof.telemetry.sampler import Sampler

SAMPLE = "sample"  # the query's name in events
Reader = Callable[[float, float], Sequence[Sample | Record]]  # given run time, and how late the reading is

USERS_HZ = 1.0  # readings of all processes of the host, each some 15 ms for a thousand of them


def _driver(duty: AgentDuty) -> Collection[int]:
    """The driver's pid, if it runs on this host."""
    return () if duty.driver is None or not alive(duty.driver) else (duty.driver.pid,)


class Senses(Protocol):
    """The readings of an agent's GPUs and host, real or simulated.

    `supported` are the subjects whose Xids are received, `latest` is each GPU's last sample, by subject.
    `users`: whose CPU time it is; None if nothing is loaded, only watched.
    """

    supported: frozenset[str]
    latest: Mapping[str, GpuSample]
    users: CpuUsers | None

    def start(self) -> None:
        """Begin to read."""

    def drain(self) -> list[Sample | Record]:
        """Samples, events and what changed on the GPUs since the last drain."""

    def watches(self) -> list[ProcessWatch]:
        """How completely the processes of each GPU were watched so far."""

    def pcie_errors(self) -> list[PcieErrors]:
        """The PCIe errors of each GPU so far."""

    def stop(self, timeout_s: float) -> None:
        """End within `timeout_s`, even if a reading hangs."""


class Sensing:
    """Samples from `start` to `stop`; `supported` are the subjects whose Xids are received.

    `own_pids` returns the processes that are workers of this run so far.
    """

    def __init__(
        self,
        duty: AgentDuty,
        nvml: Nvml | None,
        silent: Silent | None,
        host: HostReader,
        now_s: Callable[[], float],
        *,
        own_pids: Callable[[], Collection[int]],
    ) -> None:
        self._duty = duty
        self._pcie = PcieWatch(
            duty.pci_bus_ids, lambda t_s, subject: pcie_errors(t_s, subject, duty.pci_bus_ids[subject])
        )
        self._nvml = nvml
        self._silent = silent
        self._host = host
        self._now_s = now_s
        self._probe = ResponsivenessProbe()
        self.users: CpuUsers | None = None
        if duty.run_id is not None:
            self.users = CpuUsers(own_pids, host.usable_cpus, driver=lambda: _driver(duty))
        self.latest: Mapping[str, GpuSample] = {}
        self._latest_lock = threading.Lock()
        self._xids = nvml.xids(duty.uuids, now_s) if nvml is not None and duty.uuids else None
        self.supported = self._xids.supported if self._xids is not None else frozenset[str]()
        self._samplers = {duty.node: Sampler(duty.rate_hz, self._read_host, now_s, subject=duty.node)}
        if nvml is not None and silent is not None:
            for uuid, subject in duty.uuids.items():
                read = self._gpu_reader(nvml, silent, uuid, subject)
                self._samplers[subject] = Sampler(duty.rate_hz, read, now_s, subject=subject)
        self._missed = dict.fromkeys(self._samplers, 0)
        between_s = 0.5 / duty.rate_hz  # after a point of the grid
        self._use = Sampler(USERS_HZ, self._read_users, now_s, subject=duty.node, offset_s=between_s)
        self._watchers: Watchers | None = None
        self._processes: dict[str, Sampler] = {}  # by the GPU's subject
        if duty.processes is not None and nvml is not None and silent is not None:
            self._watchers = watchers = Watchers(duty, duty.processes, nvml, silent, own_pids=own_pids)
            for subject in duty.uuids.values():
                read = self._process_reader(watchers, subject)
                sampler = Sampler(PROCESSES_HZ, read, now_s, subject=subject, offset_s=between_s)
                self._processes[subject] = sampler
        self._stopped = False

    def start(self) -> None:
        for sampler in self._every_sampler():
            sampler.start()

    def drain(self) -> list[Sample | Record]:
        found: list[Sample | Record] = []
        for subject, sampler in self._samplers.items():
            found += sampler.drain()
            found += self._gap(subject, sampler)
        found += self._use.drain()  # what went wrong, if anything did
        for sampler in self._processes.values():
            found += sampler.drain()
        if self._stopped:
            found += self.watches()
        if self._xids is not None:
            found += self._xids.drain()
        found += self._give_up_stuck()
        if self._nvml is not None:
            found += self._nvml.problems()
        return found

    def watches(self) -> list[ProcessWatch]:
        return self._watchers.watches() if self._watchers is not None else []

    def pcie_errors(self) -> list[PcieErrors]:
        return self._pcie.now(self._now_s())

    def stop(self, timeout_s: float) -> None:
        samplers = self._every_sampler()
        for sampler in samplers:
            sampler.ask_to_stop()
        for sampler in samplers:
            sampler.stop(timeout_s / 2 / len(samplers))
        self._stopped = True
        self._probe.stop(timeout_s / 4)
        if self._xids is not None:
            self._xids.stop(timeout_s / 4)

    def _every_sampler(self) -> list[Sampler]:
        return [*self._samplers.values(), self._use, *self._processes.values()]

    def _read_host(self, t_s: float, lateness_s: float) -> Sequence[Sample | Record]:
        own_percent = None if self.users is None else self.users.own_now()
        sample = self._host.sample(
            self._duty.node,
            t_s,
            lateness_s,
            self._probe.drain(),
            own_percent=own_percent,
            own_waited_percent=None if self.users is None else self.users.own_waited_percent,
        )
        return [sample, *self._pcie.when_due(t_s)]

    def _read_users(self, _t_s: float, _lateness_s: float) -> Sequence[Sample | Record]:
        if self.users is not None:
            self.users.read()
        return []

    def _gpu_reader(self, nvml: Nvml, silent: Silent, uuid: str, subject: str) -> Reader:
        def read(t_s: float, lateness_s: float) -> Sequence[Sample | Record]:
            try:
                sample = read_sample(nvml.gpu(uuid, subject, t_s), lateness_s)
            except GpuLost as error:
                return silent.lost(error, SAMPLE)
            self._keep_latest(sample)
            return [sample]

        return read

    @staticmethod
    def _process_reader(watchers: Watchers, subject: str) -> Reader:
        return lambda t_s, _lateness_s: watchers.read(subject, t_s)

    def _keep_latest(self, sample: GpuSample) -> None:
        with self._latest_lock:  # a new object: other threads read the old one
            self.latest = {**self.latest, sample.subject: sample}

    def _gap(self, subject: str, sampler: Sampler) -> list[Event]:
        missed = sampler.missed - self._missed[subject]
        if missed <= 0:
            return []
        self._missed[subject] += missed
        message = f"{missed} grid points passed without a reading"
        return [Event(self._now_s(), "sampling_gap", subject, message, data={"missed": missed})]

    def _give_up_stuck(self) -> list[Event]:
        """Stop querying a GPU whose reading does not return."""
        events: list[Event] = []
        for uuid, subject in self._duty.uuids.items():
            if self._silent is None:
                continue
            for query, sampler in self._readers(subject):
                if sampler.stuck_for_s(self._now_s()) > self._duty.stuck_s:
                    events += self._silent.hung(uuid, subject, query, self._duty.stuck_s)
        return events

    def _readers(self, subject: str) -> list[tuple[str, Sampler]]:
        """The samplers that read a GPU, each with the name of its query."""
        both = ((SAMPLE, self._samplers.get(subject)), (PROCESSES, self._processes.get(subject)))
        return [(query, sampler) for query, sampler in both if sampler is not None]
