"""Whose process a pid is, as /proc tells. A pid that is not there keeps its number and nothing else."""

import pwd
import re
from dataclasses import dataclass
from pathlib import Path

from rigproof.host.proc import PROC

ODD = re.compile(r"[^\w.:+@/-]")  # so that a name cannot pass for the text around it
GENERATIONS = 64  # more parents are a list that runs in a circle


@dataclass(frozen=True, slots=True)
class Who:
    """A process's user and program, and the pids of its parent, whose parent, and so on."""

    user: str | None = None
    name: str | None = None
    parents: tuple[int, ...] = ()


def who_is(pid: int, proc: Path = PROC) -> Who:
    """What is known of it; of a process of another pid namespace, nothing."""
    folder = proc / str(pid)
    try:
        user = user_name(folder.stat().st_uid)
        name = ODD.sub("_", (folder / "comm").read_text(errors="replace").strip())
    except OSError:
        return Who()
    return Who(user, name or None, _parents(pid, proc))


def user_name(uid: int) -> str:
    """The user's name; `uid 1000` where this host has none for it."""
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
        pid = int(stat.rpartition(")")[2].split()[1])  # the name before the last bracket may hold some
        if pid <= 0:
            break
        found.append(pid)
    return tuple(found)
