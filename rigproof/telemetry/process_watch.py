"""Turns successive process lists into the changes on a GPU, so that a long run leaves few records."""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rigproof.host.processes import Who, who_is
from rigproof.records.processes import READINGS, GpuProcess, ProcessLimits, ProcessWatch, descends
from rigproof.telemetry.nvml.processes import Listed

RATE_HZ = 1.0
WATCH_EVERY_S = 30.0  # between two records of the watch itself
MORE = 1.5  # use of the SMs over the limit is recorded again once it is this many times the last record's


@dataclass(slots=True)
class Known:
    """A process on the GPU: its last recorded state, and its use of the SMs in the last readings."""

    recorded: GpuProcess
    uses: deque[float] = field(default_factory=lambda: deque([0.0] * READINGS, READINGS))


class ProcessWatcher:
    """Takes the readings of one GPU, and reports which processes came, changed and went.

    `own_pids` returns the processes that are workers of this run so far.
    """

    def __init__(
        self,
        subject: str,
        limits: ProcessLimits,
        who: Callable[[int], Who] = who_is,
        own_pids: Callable[[], Collection[int]] = frozenset,
    ) -> None:
        self._subject = subject
        self._limits = limits
        self._who = who
        self._own_pids = own_pids
        self._known: dict[int, Known] = {}
        self._first_s: float | None = None
        self._last_s = 0.0
        self._watch_recorded_s = 0.0
        self._readings = 0
        self._longest_gap_s = 0.0
        self._sm_readable = False

    def take(
        self, t_s: float, listed: Sequence[Listed] | None, use: Mapping[int, float] | None
    ) -> list[GpuProcess | ProcessWatch]:
        """The records that a reading adds; None stands for a list, or uses, that were not reported."""
        if self._first_s is None:
            self._first_s = self._last_s = t_s
        if listed is None:
            return self._watch_when_due(t_s)
        if self._readings:
            self._longest_gap_s = max(self._longest_gap_s, t_s - self._last_s)
        self._readings += 1
        self._last_s = t_s
        self._sm_readable |= use is not None
        return [*self._changes(t_s, listed, use), *self._watch_when_due(t_s)]

    def watch(self) -> ProcessWatch | None:
        """How completely the GPU was watched so far; None before the first reading."""
        if self._first_s is None:
            return None
        return ProcessWatch(
            self._last_s,
            self._subject,
            self._first_s,
            self._readings,
            self._longest_gap_s,
            self._sm_readable,
        )

    def _watch_when_due(self, t_s: float) -> list[GpuProcess | ProcessWatch]:
        watch = self.watch()
        if watch is None or (t_s > watch.from_s and t_s - self._watch_recorded_s < WATCH_EVERY_S):
            return []
        self._watch_recorded_s = t_s
        return [watch]

    def _changes(
        self, t_s: float, listed: Sequence[Listed], use: Mapping[int, float] | None
    ) -> Iterator[GpuProcess]:
        here = {one.pid: one for one in listed}
        for pid in [pid for pid in self._known if pid not in here]:
            del self._known[pid]
            yield GpuProcess(t_s, self._subject, pid, gone=True)
        for pid, one in here.items():
            known = self._known.get(pid)
            now = self._now(t_s, one, known, use)
            if known is None:
                known = self._known[pid] = Known(now)
                if use is not None:
                    known.uses.append(use.get(pid, 0.0))
                yield now
            elif self._changed(known.recorded, now):
                known.recorded = now
                yield now

    def _now(
        self, t_s: float, one: Listed, known: Known | None, use: Mapping[int, float] | None
    ) -> GpuProcess:
        """A process's present state, with the user, name and parents it had when first seen."""
        if known is None:
            who = self._who(one.pid)
            share = None if use is None else use.get(one.pid, 0.0) / READINGS
        else:
            who = Who(known.recorded.user, known.recorded.name, known.recorded.parents)
            share = None
            if use is not None:
                known.uses.append(use.get(one.pid, 0.0))
                share = sum(known.uses) / READINGS
        return GpuProcess(
            t_s=t_s,
            subject=self._subject,
            pid=one.pid,
            graphics=one.graphics,
            used_mib=one.used_mib,
            sm_percent=share,
            user=who.user,
            name=who.name,
            parents=who.parents,
            own=descends(one.pid, who.parents, self._own_pids()),
        )

    def _changed(self, recorded: GpuProcess, now: GpuProcess) -> bool:
        if (recorded.own, recorded.graphics) != (now.own, now.graphics):
            return True
        if recorded.used_mib is None or now.used_mib is None:
            return recorded.used_mib is not now.used_mib or self._use_changed(recorded, now)
        grew = abs(now.used_mib - recorded.used_mib) >= self._limits.growth_mib
        return grew or self._use_changed(recorded, now)

    def _use_changed(self, recorded: GpuProcess, now: GpuProcess) -> bool:
        """Whether its use of the SMs passed the limit, kept rising, or fell well below it."""
        before, limit = recorded.sm_percent, self._limits.sm_percent
        if now.sm_percent is None or before is None:
            return now.sm_percent is not None  # a reading without them shows no change
        if now.sm_percent > limit:
            return before <= limit or now.sm_percent >= MORE * before
        return before > limit and now.sm_percent < limit / MORE
