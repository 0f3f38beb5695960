"""Processes of this host, read from /proc: by id and start time, and their users, programs and parents.

The start time tells a process from a later one with the same id.
"""

import contextlib
import os
import pwd
import re
import signal
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rigproof.host.proc import PROC, TICKS_PER_S

ODD = re.compile(r"[^\w.:+@/-]")  # so that a name cannot be mistaken for the text around it
GENERATIONS = 64  # more parents mean that the list is circular


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process's id and `start_ticks`, field 22 of /proc/PID/stat (proc(5)): clock ticks since boot."""

    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True)
class Stat:
    """Fields of /proc/PID/stat (proc(5))."""

    state: str
    parent: int
    start_ticks: int
    ticks: int  # CPU time: utime and stime


def stat_of(pid: int, proc: Path = PROC) -> Stat | None:
    """The line of a process; None if there is none. A name in brackets may contain brackets itself."""
    try:
        fields = (proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return Stat(fields[0].decode(), int(fields[1]), int(fields[19]), int(fields[11]) + int(fields[12]))


def stats(proc: Path = PROC) -> dict[int, Stat]:
    """Every process that can be seen, by its pid."""
    found = {pid: stat_of(pid, proc) for pid in _pids(proc)}
    return {pid: one for pid, one in found.items() if one is not None}  # others ended meanwhile


def family(roots: Collection[int], processes: Mapping[int, Stat]) -> set[int]:
    """These processes and all their descendants."""
    found = set(roots)
    grown = True
    while grown:
        younger = {pid for pid, one in processes.items() if one.parent in found and pid not in found}
        grown = bool(younger)
        found |= younger
    return found


def process_id(pid: int, proc: Path = PROC) -> ProcessId | None:
    """The process that has this id now; None if there is none, or only a zombie."""
    found = stat_of(pid, proc)
    return None if found is None or found.state in "ZX" else ProcessId(pid, found.start_ticks)


def own_process() -> ProcessId:
    """The process that calls this."""
    found = process_id(os.getpid())
    assert found is not None
    return found


def age_s() -> float:
    """How long this process has existed, s; to a clock tick (10 ms)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - own_process().start_ticks / TICKS_PER_S


def alive(process: ProcessId) -> bool:
    """Whether it still runs. A stopped process does; one that waits to be reaped does not."""
    return process_id(process.pid) == process


def kill(process: ProcessId) -> bool:
    """Send SIGKILL if it is still the same process, even a frozen one. Returns whether it was sent."""
    if not alive(process):
        return False
    try:
        os.kill(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def wait_gone(processes: Iterable[ProcessId], timeout_s: float) -> tuple[ProcessId, ...]:
    """Wait at most `timeout_s` for all to be gone. Returns those that are still there."""
    end_s = time.monotonic() + timeout_s
    left = tuple(process for process in processes if alive(process))
    while left and time.monotonic() < end_s:
        time.sleep(0.02)
        left = tuple(process for process in left if alive(process))
    return left


def descendants(roots: Collection[int], proc: Path = PROC) -> frozenset[ProcessId]:
    """The descendants of `roots`, without the roots."""
    every = stats(proc)
    return frozenset(ProcessId(pid, every[pid].start_ticks) for pid in family(roots, every) - set(roots))


def naming(text: str, proc: Path = PROC) -> frozenset[ProcessId]:
    """Processes of this one's session (setsid(2)) whose command line contains `text`, except this one.

    Only this session, because another user's `tail -f` in another terminal would also match.
    """
    found = set()
    own = os.getsid(0)
    for pid in _pids(proc):
        with contextlib.suppress(OSError):
            if text.encode() in (proc / str(pid) / "cmdline").read_bytes() and os.getsid(pid) == own:
                found.add(process_id(pid, proc))
    return frozenset(one for one in found if one is not None and one.pid != os.getpid())


def writers(folder: Path, session: int, proc: Path = PROC) -> frozenset[ProcessId]:
    """Processes of that session (setsid(2)) that have a file below `folder` open for writing."""
    found = set()
    for pid in _pids(proc):
        with contextlib.suppress(OSError):
            if os.getsid(pid) == session and _writes(proc / str(pid), folder):
                found.add(process_id(pid, proc))
    return frozenset(one for one in found if one is not None and one.pid != os.getpid())


def _writes(entry: Path, folder: Path) -> bool:
    for link in (entry / "fd").iterdir():
        with contextlib.suppress(OSError):
            if not link.readlink().is_relative_to(folder):
                continue
            lines = (entry / "fdinfo" / link.name).read_text(encoding="ascii").splitlines()
            flags = next(line.split()[1] for line in lines if line.startswith("flags:"))
            if int(flags, 8) & os.O_ACCMODE != os.O_RDONLY:
                return True
    return False


def _pids(proc: Path) -> list[int]:
    return [int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()]


@dataclass(frozen=True, slots=True)
class Who:
    """A process's user and program, and the pids of its parent, its parent's parent, and so on."""

    user: str | None = None
    name: str | None = None
    parents: tuple[int, ...] = ()


def who_is(pid: int, proc: Path = PROC) -> Who:
    """A pid's user and program; empty for a process that is gone or of another pid namespace."""
    folder = proc / str(pid)
    try:
        user = user_name(folder.stat().st_uid)
        name = ODD.sub("_", (folder / "comm").read_text(errors="replace").strip())
    except OSError:
        return Who()
    return Who(user, name or None, _parents(pid, proc))


def user_name(uid: int) -> str:
    """The user's name; `uid 1000` if this host has none for the id."""
    try:
        return ODD.sub("_", pwd.getpwuid(uid).pw_name)
    except KeyError:
        return f"uid {uid}"


def _parents(pid: int, proc: Path) -> tuple[int, ...]:
    found: list[int] = []
    while len(found) < GENERATIONS and (stat := stat_of(pid, proc)) is not None and stat.parent > 0:
        pid = stat.parent
        found.append(pid)
    return tuple(found)
