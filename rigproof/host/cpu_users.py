"""Whose CPU time it is: what this run's own processes use, and which foreign ones use most."""

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rigproof.host.proc import PROC, TICKS_PER_S
from rigproof.host.process_names import who_is

NAMED = 3  # foreign processes that are reported
NAMED_PERCENT = 1.0  # of the CPUs: who uses less in every reading is not
READING_SHARE = 0.02  # of the time, at most, goes into readings: of thousands of processes one takes long
KERNEL = 2  # kthreadd, the parent of the kernel's threads


@dataclass(frozen=True, slots=True)
class Used:
    """One process at one reading. Fields of /proc/PID/stat (proc(5))."""

    parent: int
    start_ticks: int
    ticks: int  # utime and stime


@dataclass(frozen=True, slots=True)
class Hungry:
    """A foreign process, and its mean share of the CPUs since `restart`. None: it was gone too soon."""

    pid: int
    name: str | None
    user: str | None
    percent: float


class CpuUsers:
    """Reads every process of this host now and then; `read` may run in another thread than the rest.

    `roots` returns the pids whose descendants are this run's own besides this process's: its workers and its
    driver. This process's parent, the raylet, is the run's own too, but not what else that one started: in
    a cluster of others these are their jobs. `cpus` are those that shares refer to.
    """

    def __init__(
        self,
        roots: Callable[[], Collection[int]],
        cpus: Callable[[], float],
        proc: Path = PROC,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._roots = roots
        self._cpus = cpus
        self._proc = proc
        self._clock = clock
        self._lock = threading.Lock()
        self._last: tuple[float, Mapping[int, Used]] | None = None
        self._next_s = 0.0
        self._totals: dict[tuple[int, int], int] = {}  # ticks of foreign processes, by pid and start
        self._whose: dict[tuple[int, int], tuple[str | None, str | None]] = {}
        self._counted_s = 0.0
        self.own_percent: float | None = None  # of the CPUs, between the last two readings

    def restart(self) -> None:
        """Count foreign processes from now on."""
        with self._lock:
            self._totals, self._whose, self._counted_s = {}, {}, 0.0

    def hungriest(self) -> list[Hungry]:
        """The foreign processes that used most since `restart`, at most three, each over 1 % at some time."""
        with self._lock:
            whole = self._counted_s * TICKS_PER_S * self._cpus()
            most = sorted(self._whose, key=lambda one: self._totals[one], reverse=True)[:NAMED]
            return [Hungry(one[0], *self._whose[one], 100 * self._totals[one] / whole) for one in most]

    def read(self) -> None:
        """Count once more, unless the last reading took so long that it is too soon."""
        begun_s = self._clock()
        if begun_s < self._next_s:
            return
        processes = dict(_processes(self._proc))
        now_s = self._clock()
        self._next_s = now_s + (now_s - begun_s) / READING_SHARE
        last, self._last = self._last, (now_s, processes)
        if last is not None and now_s > last[0]:
            with self._lock:
                self._count(last[1], processes, now_s - last[0])

    def _count(self, before: Mapping[int, Used], processes: Mapping[int, Used], passed_s: float) -> None:
        whole = passed_s * TICKS_PER_S * self._cpus()
        own = _family({os.getpid(), *self._roots()}, processes) | {os.getppid()}
        own_ticks = 0
        for pid, now in processes.items():
            then = before.get(pid)
            same = then is not None and then.start_ticks == now.start_ticks
            ticks = now.ticks - (then.ticks if then is not None and same else 0)
            if pid in own:
                own_ticks += ticks
            elif ticks > 0 and KERNEL not in (pid, now.parent):
                key = (pid, now.start_ticks)
                self._totals[key] = self._totals.get(key, 0) + ticks
                if 100 * ticks > NAMED_PERCENT * whole and key not in self._whose:
                    who = who_is(pid, self._proc)
                    self._whose[key] = (who.name, who.user)
        self._counted_s += passed_s
        self.own_percent = min(100.0, 100 * own_ticks / whole) if whole > 0 else None


def _family(roots: Collection[int], processes: Mapping[int, Used]) -> set[int]:
    """These processes and all their descendants."""
    family = set(roots)
    grown = True
    while grown:
        younger = {pid for pid, one in processes.items() if one.parent in family and pid not in family}
        grown = bool(younger)
        family |= younger
    return family


def _processes(proc: Path) -> Iterable[tuple[int, Used]]:
    """Every process that can be seen, by its pid. A name in brackets may contain brackets itself."""
    for entry in proc.iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            yield int(entry.name), Used(int(fields[1]), int(fields[19]), int(fields[11]) + int(fields[12]))
