"""Who is on a GPU: each process as it changes, and the proof that somebody looked all along."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from rigproof.records.verdict import figure

MIB_PER_GIB = 1024
NAMED = 4  # of many
# As `told_pid` writes it; what is secret of it are the program and the user.
TOLD_PID = re.compile(r"\bpid (?P<pid>\d+) \((?:(?P<name>[^(),]+), )?user (?P<user>[^(),]+)\)")


def told_pid(pid: int, name: str | None, user: str | None) -> str:
    """`pid 5263 (python3, user ml)`; the pid alone where nobody knows whose it is."""
    if user is None:
        return f"pid {pid}"
    return f"pid {pid} ({name}, user {user})" if name else f"pid {pid} (user {user})"


def descends(pid: int, parents: Iterable[int], pids: Collection[int]) -> bool:
    """Whether a process is one of these, or was started by one of them."""
    return pid in pids or any(one in pids for one in parents)


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process on one GPU: told when it is first seen, when it changes much, and when it is gone.

    What is told holds until the next record of the same pid. `pid` is the driver's: in a container it may be
    the host's, and user, name and parents are then nobody's, or those of another process.
    """

    t_s: float
    subject: str
    pid: int
    gone: bool = False
    graphics: bool = False  # it draws: X, a compositor, a browser
    used_mib: float | None = None  # of the card's memory; None where the driver does not tell
    sm_percent: float | None = None  # mean of the last seconds; None where the driver does not tell
    user: str | None = None
    name: str | None = None
    parents: tuple[int, ...] = ()  # its parent, whose parent, and so on
    own: bool = False  # a worker of this run, or started by one, as far as its node's agent knows

    def belongs_to(self, pids: Collection[int]) -> bool:
        """Whether it is one of these processes, was started by one, or is known to be the run's own."""
        return self.own or descends(self.pid, self.parents, pids)

    @property
    def who(self) -> str:
        """`pid 5263 (python3, user ml)`."""
        return told_pid(self.pid, self.name, self.user)


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """What a foreign process may do: grow by so much, use so much of the SMs. More of either is told."""

    growth_mib: float
    sm_percent: float


@dataclass(frozen=True, slots=True)
class ProcessWatch:
    """That the processes of one GPU were watched, and how well. A later record replaces the earlier.

    `t_s` and `from_s` are the last and the first reading; with no `readings` the list was never readable.
    """

    t_s: float
    subject: str
    from_s: float
    readings: int
    longest_gap_s: float  # between two readings
    sm_readable: bool  # whether the driver tells which process uses the SMs


def holding(processes: Iterable[GpuProcess]) -> str:
    """Who of them holds how much memory, those with most first, in words; empty where nobody holds any."""
    held = sorted(((one.used_mib, one.who) for one in processes if one.used_mib), reverse=True)
    return ", ".join(f"{who} holds {figure(mib / MIB_PER_GIB, 'GiB')}" for mib, who in held[:NAMED])
