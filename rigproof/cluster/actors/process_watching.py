"""Watches the processes on each GPU, about once a second, in threads separate from the sampling grid.

A process list takes some 5 ms in which the driver answers no other query, so it is read half-way between
two points of the grid.
"""

from collections.abc import Callable, Collection, Sequence

from rigproof.cluster.actors.gpu_readings import Silent
from rigproof.cluster.actors.messages import AgentDuty
from rigproof.host.process_names import Who, who_is
from rigproof.records.measurements import Event
from rigproof.records.processes import GpuProcess, ProcessLimits, ProcessWatch
from rigproof.records.recording import Record, Sample
from rigproof.telemetry.nvml.errors import GpuLost
from rigproof.telemetry.nvml.session import Nvml
from rigproof.telemetry.process_watch import RATE_HZ, ProcessWatcher
from rigproof.telemetry.sampler import Sampler

PROCESSES = "processes"  # the query's name in events


class Watchers:
    """Reads the processes on every GPU of a node, and keeps what is known of them."""

    def __init__(
        self,
        duty: AgentDuty,
        limits: ProcessLimits,
        nvml: Nvml,
        silent: Silent,
        *,
        own_pids: Callable[[], Collection[int]],
        who: Callable[[int], Who] = who_is,
    ) -> None:
        self._nvml = nvml
        self._silent = silent
        self._uuids = {subject: uuid for uuid, subject in duty.uuids.items()}
        self._watchers = {subject: ProcessWatcher(subject, limits, who, own_pids) for subject in self._uuids}

    def read(self, subject: str, t_s: float) -> Sequence[GpuProcess | ProcessWatch | Event]:
        """Read the processes on one GPU. Returns what has changed, or the event that the GPU is lost."""
        uuid = self._uuids[subject]
        try:
            listed = self._nvml.processes(uuid, subject, t_s)
            use = None if listed is None else self._nvml.sm_use(uuid, subject, t_s)
        except GpuLost as error:
            return self._silent.lost(error, PROCESSES)
        return self._watchers[subject].take(t_s, listed, use)

    def watches(self) -> list[ProcessWatch]:
        """How completely each GPU was watched so far."""
        found = [watcher.watch() for watcher in self._watchers.values()]
        return [watch for watch in found if watch is not None]


class ProcessWatching:
    """A reading thread for each GPU: a driver that hangs for one must not hide the others."""

    def __init__(self, duty: AgentDuty, watchers: Watchers, now_s: Callable[[], float]) -> None:
        self._watchers = watchers
        self._stopped = False
        self.samplers = {
            subject: Sampler(
                RATE_HZ, self._reader(subject), now_s, subject=subject, offset_s=0.5 / duty.rate_hz
            )
            for subject in duty.uuids.values()
        }

    def start(self) -> None:
        for sampler in self.samplers.values():
            sampler.start()

    def drain(self) -> list[Sample | Record]:
        """Take the changes since the last drain; after `stop`, also how completely the GPUs were watched."""
        found: list[Sample | Record] = []
        for sampler in self.samplers.values():
            found += sampler.drain()
        return [*found, *self.watches()] if self._stopped else found

    def watches(self) -> list[ProcessWatch]:
        return self._watchers.watches()

    def ask_to_stop(self) -> None:
        """Let every thread end after its current reading."""
        for sampler in self.samplers.values():
            sampler.ask_to_stop()

    def stop(self, timeout_s: float) -> None:
        """End the threads within `timeout_s`, even if a reading hangs."""
        self.ask_to_stop()
        for sampler in self.samplers.values():
            sampler.stop(timeout_s / max(1, len(self.samplers)))
        self._stopped = True

    def _reader(self, subject: str) -> Callable[[float, float], Sequence[GpuProcess | ProcessWatch | Event]]:
        def read(t_s: float, _lateness_s: float) -> Sequence[GpuProcess | ProcessWatch | Event]:
            return self._watchers.read(subject, t_s)

        return read
