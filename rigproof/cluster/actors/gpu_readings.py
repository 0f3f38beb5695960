"""Readings of all GPUs of a host, the processes on them, and the events for a GPU that no longer answers."""

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from rigproof.cluster.actors.messages import AgentDuty
from rigproof.host.bounded import Background
from rigproof.host.processes import Who, who_is
from rigproof.records.measurements import Event, ForeignMemory, GpuCounters
from rigproof.records.processes import GpuProcess, ProcessLimits, ProcessWatch
from rigproof.telemetry.nvml.errors import GpuLost
from rigproof.telemetry.nvml.processes import read_processes, read_sm_use
from rigproof.telemetry.nvml.session import Nvml
from rigproof.telemetry.process_watch import ProcessWatcher

PROCESSES = "processes"  # the query's name in events

Counts = GpuCounters | ForeignMemory


class Silent:
    """GPUs that no longer answer; each is reported once, however many queries fail for it.

    A query that never returns is a "timeout", and its GPU is not queried again: every further query would
    block one more thread. A GPU that the driver reports as lost is "gpu_lost".
    """

    def __init__(self, nvml: Nvml, now_s: Callable[[], float]) -> None:
        self._nvml = nvml
        self._now_s = now_s
        self._lock = threading.Lock()
        self._reported: set[str] = set()

    def hung(self, uuid: str, subject: str, query: str, limit_s: float) -> list[Event]:
        """Give up a GPU whose `query` has not returned for `limit_s`."""
        if not self._first(subject):
            return []
        message = (
            f"NVML has not answered the query “{query}” for {limit_s:g} s, and this GPU is not queried again"
        )
        self._nvml.give_up(uuid, message)
        return [Event(self._now_s(), "timeout", subject, message, data={"limit_s": limit_s, "query": query})]

    def lost(self, error: GpuLost, query: str) -> list[Event]:
        """Note a GPU that the driver, or an earlier Xid, reported as lost."""
        if not self._first(error.subject):
            return []
        data = {"query": query, "uuid": error.uuid, "reason": error.reason}
        return [Event(self._now_s(), "gpu_lost", error.subject, str(error), data=data)]

    def _first(self, subject: str) -> bool:
        with self._lock:
            first = subject not in self._reported
            self._reported.add(subject)
        return first


def read_all(
    uuids: Mapping[str, str],
    read: Callable[[str, str], Counts],
    *,
    query: str,
    limit_s: float,
    silent: Silent,
    now_s: Callable[[], float],
) -> list[Counts | Event]:
    """Call `read(uuid, subject)` for every GPU in `uuids`, in parallel, within `limit_s` for all together."""
    end_s = time.monotonic() + limit_s
    readings = {uuid: Background(partial(read, uuid, subject), query) for uuid, subject in uuids.items()}
    found: list[Counts | Event] = []
    for uuid, subject in uuids.items():
        reading = readings[uuid]
        if not reading.done(max(0.0, end_s - time.monotonic())):
            found += silent.hung(uuid, subject, query, limit_s)
        elif isinstance(reading.error, GpuLost):
            found += silent.lost(reading.error, query)
        elif reading.error is not None:
            message = f"{query}: {type(reading.error).__name__}: {reading.error}"
            data = {"query": query, "code": None}
            found.append(Event(now_s(), "nvml_error", subject, message, data=data))
        else:
            found += reading.results()
    return found


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
            gpu = self._nvml.gpu(uuid, subject, t_s)
            listed = read_processes(gpu)
            use = None if listed is None else read_sm_use(gpu)
        except GpuLost as error:
            return self._silent.lost(error, PROCESSES)
        return self._watchers[subject].take(t_s, listed, use)

    def watches(self) -> list[ProcessWatch]:
        """How completely each GPU was watched so far."""
        found = [watcher.watch() for watcher in self._watchers.values()]
        return [watch for watch in found if watch is not None]
