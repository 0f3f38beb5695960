"""Readings of all GPUs of a host at once, and the events for a GPU that no longer answers."""

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial

from rigproof.host.bounded import Background
from rigproof.records.measurements import Event, ForeignMemory, GpuCounters
from rigproof.telemetry.nvml.errors import GpuLost
from rigproof.telemetry.nvml.session import Nvml

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
