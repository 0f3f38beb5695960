"""The processes on a GPU: each one as it changes, and how well they were watched."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from rigproof.records.verdict import figure

MIB_PER_GIB = 1024
READINGS = 5  # over which the use of the SMs is averaged, so that drawing one frame does not count as work
NAMED = 4  # processes that a message names at most


def process_text(pid: int, name: str | None, user: str | None) -> str:
    """`pid 5263 (python3, user ml)`; the pid alone if its user is unknown."""
    if user is None:
        return f"pid {pid}"
    return f"pid {pid} ({name}, user {user})" if name else f"pid {pid} (user {user})"


def descends(pid: int, parents: Iterable[int], pids: Collection[int]) -> bool:
    """Whether a process is one of these, or was started by one of them."""
    return pid in pids or any(parent in pids for parent in parents)


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process on one GPU: recorded when it is first seen, when it changes much, and when it is gone.

    The values hold until the next record of the same pid. `pid` is as the driver reports it: in a container
    it may be the host's; user, name and parents are then absent, or those of another process.
    """

    t_s: float
    subject: str
    pid: int
    gone: bool = False
    graphics: bool = False  # it draws: X, a compositor, a browser
    used_mib: float | None = None  # of the card's memory; None if the driver does not report it
    sm_percent: float | None = None  # mean of the last seconds; None if the driver does not report it
    user: str | None = None
    name: str | None = None
    parents: tuple[int, ...] = ()  # its parent, its grandparent, and so on
    own: bool = False  # a worker of this run, or started by one, as far as its node's agent knows

    def belongs_to(self, pids: Collection[int]) -> bool:
        """Whether it is one of these processes, was started by one, or is known to be the run's own."""
        return self.own or descends(self.pid, self.parents, pids)

    @property
    def who(self) -> str:
        """`pid 5263 (python3, user ml)`."""
        return process_text(self.pid, self.name, self.user)


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """What a foreign process may do: grow by that much, use that much of the SMs. More is recorded."""

    growth_mib: float
    sm_percent: float


@dataclass(frozen=True, slots=True)
class ProcessWatch:
    """How well the processes of one GPU were watched. A later record replaces the earlier one.

    `t_s` and `from_s` are the times of the last and the first reading; if `readings` is 0, the list was never
    readable.
    """

    t_s: float
    subject: str
    from_s: float
    readings: int
    longest_gap_s: float  # between two readings
    sm_readable: bool  # whether the driver reports how much of the SMs each process uses


def holding(processes: Iterable[GpuProcess]) -> str:
    """`pid 5263 (python3, user ml) holds 2 GiB, …`, the largest first; empty if none holds any memory."""
    users = [(process.used_mib, process.who) for process in processes if process.used_mib]
    largest = sorted(users, reverse=True)[:NAMED]
    return ", ".join(f"{who} holds {figure(mib / MIB_PER_GIB, 'GiB')}" for mib, who in largest)
