"""Whose CPU time it is: what this run's own processes use, and which foreign ones use most."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rigproof.host.proc import PROC, TICKS_PER_S
from rigproof.host.processes import Stat, family, stats, who_is

NAMED = 3  # foreign processes that are reported
NAMED_PERCENT = 1.0  # of the CPUs: who uses less in every reading is not
STALE_S = 2.0  # from when on a reading says nothing about now: they are a second apart
NAMED_S = 1.0  # a reading after less counts as after so long: one tick of 1/100 s says nothing
READING_SHARE = 0.02  # of a CPU, at most, goes into readings: one of thousands of processes takes long
KERNEL = 2  # kthreadd, the parent of the kernel's threads


@dataclass(frozen=True, slots=True)
class Reading:
    """All processes of this host at a moment, by pid, and which of these pids are this run's own."""

    t_s: float
    used: Mapping[int, Stat]
    own: Collection[int]
    waited_ns: Mapping[int, Mapping[int, int]]  # by the workers' threads for a CPU: by process and thread

    def ticks_since(self, before: "Reading", pid: int) -> int:
        """A process's CPU time since an earlier reading; all of it if the process is new since then."""
        now, then = self.used[pid], before.used.get(pid)
        same = then is not None and then.start_ticks == now.start_ticks
        return now.ticks - (then.ticks if then is not None and same else 0)


@dataclass(frozen=True, slots=True)
class Hungry:
    """A foreign process and its mean share of the CPUs since `restart`; None: it ended too soon."""

    pid: int
    name: str | None
    user: str | None
    percent: float


class CpuUsers:
    """Reads every process of this host now and then; `read` may run in another thread than the rest.

    `workers` and `driver` return pids whose descendants are this run's own besides this process's. This
    process's parent, the raylet, is the run's own too, but not what else that one started: in a cluster of
    others these are their jobs. `cpus` are those that shares refer to. `spent_s` is the CPU time
    of the thread that reads: by the clock a reading takes long where others have the CPU, which is when it is
    needed.
    """

    def __init__(
        self,
        workers: Callable[[], Collection[int]],
        cpus: Callable[[], float],
        proc: Path = PROC,
        clock: Callable[[], float] = time.monotonic,
        spent_s: Callable[[], float] = time.thread_time,
        *,
        driver: Callable[[], Collection[int]] = tuple,
    ) -> None:
        self._workers, self._driver = workers, driver
        self._cpus = cpus
        self._proc = proc
        self._clock = clock
        self._spent_s = spent_s
        self._lock = threading.Lock()  # held while a reading is made, too: each continues the one before
        self._next_s = 0.0
        self._own_since: Reading | None = None
        self._foreign_since: Reading | None = None
        self._totals: dict[tuple[int, int], int] = {}  # ticks of foreign processes, by pid and start
        self._whose: dict[tuple[int, int], tuple[str | None, str | None]] = {}
        self._counted_s = 0.0
        # Between the last two readings of `read`: of the CPUs; and of the time, waited for a CPU by the
        # threads of a process of the workers, the largest of these. None where the kernel does not say.
        self.own_percent: float | None = None
        self.own_waited_percent: float | None = None

    def restart(self) -> None:
        """Count foreign processes from now on, instead of from the last reading, seconds ago perhaps."""
        with self._lock:
            self._foreign_since = self._reading()
            self._totals, self._whose, self._counted_s = {}, {}, 0.0

    def hungriest(self) -> list[Hungry]:
        """The foreign processes that used most since `restart`, at most three, each over 1 % at some time.

        Reads once more: a process that came since the last reading, seconds ago on a busy host, counts too.
        """
        with self._lock:
            self._count_foreign(self._reading())
            whole = self._counted_s * TICKS_PER_S * self._cpus()
            most = sorted(self._whose, key=lambda one: self._totals[one], reverse=True)[:NAMED]
            return [Hungry(one[0], *self._whose[one], 100 * self._totals[one] / whole) for one in most]

    def read(self) -> None:
        """Take a reading, unless the last one used so much CPU time that it is too soon."""
        with self._lock:
            if self._clock() >= self._next_s:
                begun_s = self._spent_s()
                reading = self._reading()
                self._next_s = reading.t_s + (self._spent_s() - begun_s) / READING_SHARE
                self._count_own(reading)
                self._count_foreign(reading)

    def own_now(self) -> float | None:
        """`own_percent`; reads once more if the last reading is old, as where the CPU is not to be had."""
        if self._own_since is not None and self._clock() - self._own_since.t_s > STALE_S:
            self.read()
        return self.own_percent

    def _reading(self) -> Reading:
        used = stats(self._proc)
        now_s = self._clock()
        workers = family(self._workers(), used)
        own = family({os.getpid(), *workers, *self._driver()}, used) | {os.getppid()}
        return Reading(now_s, used, own, {pid: dict(_waits_ns(self._proc / str(pid))) for pid in workers})

    def _count_own(self, now: Reading) -> None:
        since, self._own_since = self._own_since, now
        if since is None or now.t_s <= since.t_s:
            return
        whole = (now.t_s - since.t_s) * TICKS_PER_S * self._cpus()
        own_ticks = sum(now.ticks_since(since, pid) for pid in now.used if pid in now.own)
        self.own_percent = min(100.0, 100 * own_ticks / whole) if whole > 0 else None
        waits_s = [
            1e-9 * sum(max(0, ns - before[thread]) for thread, ns in waited.items() if thread in before)
            for pid, waited in now.waited_ns.items()
            if waited and (before := since.waited_ns.get(pid))
        ]
        self.own_waited_percent = 100 * max(waits_s) / (now.t_s - since.t_s) if waits_s else None

    def _count_foreign(self, now: Reading) -> None:
        since, self._foreign_since = self._foreign_since, now
        if since is None or now.t_s <= since.t_s:
            return
        passed_s = now.t_s - since.t_s
        enough = NAMED_PERCENT / 100 * max(passed_s, NAMED_S) * TICKS_PER_S * self._cpus()
        for pid, one in now.used.items():
            ticks = now.ticks_since(since, pid)
            if ticks > 0 and pid not in now.own and KERNEL not in (pid, one.parent):
                key = (pid, one.start_ticks)
                self._totals[key] = self._totals.get(key, 0) + ticks
                if ticks > enough and key not in self._whose:
                    who = who_is(pid, self._proc)
                    self._whose[key] = (who.name, who.user)
        self._counted_s += passed_s


def _waits_ns(process: Path) -> Iterable[tuple[int, int]]:
    """How long each of its threads has waited for a CPU so far (kernel: scheduler/sched-stats.rst).

    Where the kernel does not count that, there is no such file, or all is 0, the time that it ran as well.
    """
    with contextlib.suppress(OSError):  # it has ended meanwhile
        for thread in (process / "task").iterdir():
            with contextlib.suppress(OSError, ValueError):
                ran_ns, waited_ns, _ = map(int, (thread / "schedstat").read_bytes().split())
                if ran_ns > 0:
                    yield int(thread.name), waited_ns
