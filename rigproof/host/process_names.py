"""A pid's user, program and parents from /proc. For a pid that is gone only the number is known."""

import pwd
import re
from dataclasses import dataclass
from pathlib import Path

from rigproof.host.proc import PROC

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
