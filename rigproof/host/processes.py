"""Processes of this host, read from /proc: by id and start time, and their users, programs and parents.

The start time tells a process from a later one with the same id.
"""

import contextlib
import os
import pwd
import re
import signal
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from rigproof.host.proc import PROC, TICKS_PER_S


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process's id and `start_ticks`, field 22 of /proc/PID/stat (proc(5)): clock ticks since boot."""

    pid: int
    start_ticks: int


def process_id(pid: int, proc: Path = PROC) -> ProcessId | None:
    """The process that has this id now; None if there is none, or only a zombie."""
    found = _stat(pid, proc)
    return None if found is None or found[0] in "ZX" else ProcessId(pid, found[2])


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
    parents: dict[int, tuple[int, int]] = {}
    for entry in proc.iterdir():
        if entry.name.isdigit() and (found := _stat(int(entry.name), proc)) is not None:
            parents[int(entry.name)] = (found[1], found[2])
    family = set(roots)
    grown = True
    while grown:
        younger = {pid for pid, (parent, _) in parents.items() if parent in family and pid not in family}
        grown = bool(younger)
        family |= younger
    return frozenset(ProcessId(pid, parents[pid][1]) for pid in family - set(roots))


def naming(text: str, proc: Path = PROC) -> frozenset[ProcessId]:
    """Processes of this one's session (setsid(2)) whose command line contains `text`, except this one.

    Only this session, because another user's `tail -f` in another terminal would also match.
    """
    found = set()
    own = os.getsid(0)
    for entry in proc.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            ours = os.getsid(int(entry.name)) == own
        except OSError:
            continue
        process = process_id(int(entry.name), proc)
        if ours and text.encode() in command and process is not None:
            found.add(process)
    return frozenset(found)


def writers(folder: Path, session: int, proc: Path = PROC) -> frozenset[ProcessId]:
    """Processes of that session (setsid(2)) that have a file below `folder` open for writing."""
    found = set()
    for entry in proc.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if os.getsid(int(entry.name)) == session and _writes(entry, folder):
                process = process_id(int(entry.name), proc)
                found |= {process} if process is not None else set()
    return frozenset(found)


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


def _stat(pid: int, proc: Path) -> tuple[str, int, int] | None:
    """State, parent and start time. Fields follow the last bracket: a name may contain brackets."""
    try:
        text = (proc / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[1]), int(fields[19])


ODD = re.compile(r"[^\w.:+@/-]")  # so that a name cannot be mistaken for the text around it
GENERATIONS = 64  # more parents mean that the list is circular


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
    while len(found) < GENERATIONS:
        try:
            stat = (proc / str(pid) / "stat").read_text(errors="replace")
        except OSError:
            break
        pid = int(stat.rpartition(")")[2].split()[1])  # the name before the last bracket may contain brackets
        if pid <= 0:
            break
        found.append(pid)
    return tuple(found)
