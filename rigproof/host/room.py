"""What this host leaves to a run: threads, the loopback interface and its name, room in a folder."""

import os
import resource
import socket
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from rigproof.host.cgroup import CGROUP, pids_limits
from rigproof.host.proc import PROC

LOOPBACK = "127.0.0.1"
CONNECT_S = 2.0
MIB = 2**20
# Who has one of them is not held to RLIMIT_NPROC: their bits in capabilities(7).
UNLIMITED = (1 << 21) | (1 << 24)  # CAP_SYS_ADMIN, CAP_SYS_RESOURCE
GROUP_REMEDY = "raise it (`docker run --pids-limit`, a unit's `TasksMax=`, a kubelet's `podPidsLimit`)"
USER_REMEDY = "raise it (`ulimit -u`, /etc/security/limits.conf)"


@dataclass(frozen=True, slots=True)
class ThreadRoom:
    """A limit on threads, how many of them are `used`, and how to raise it (`remedy`)."""

    limit: int
    used: int
    where: str
    remedy: str

    @property
    def free(self) -> int:
        """Threads that may still be started."""
        return max(0, self.limit - self.used)


def thread_room(
    proc_root: Path = PROC, cgroup_root: Path = CGROUP, user_limit: int | None = None
) -> ThreadRoom | None:
    """The limit that leaves the fewest threads: of a cgroup or of the user; None if there is none.

    `user_limit`: in place of RLIMIT_NPROC, which counts the threads of all processes of the user.
    """
    found = [
        ThreadRoom(one.limit, one.used, str(one.file), GROUP_REMEDY)
        for one in pids_limits(proc_root, cgroup_root)
    ]
    limit = _user_limit(proc_root) if user_limit is None else user_limit
    if limit is not None:
        where = f"RLIMIT_NPROC of user {os.getuid()}"
        found.append(ThreadRoom(limit, _threads_of_user(proc_root), where, USER_REMEDY))
    return min(found, key=lambda room: room.free, default=None)


def _user_limit(proc_root: Path) -> int | None:
    """RLIMIT_NPROC; None if there is none, or for root and some capabilities, for which it does not hold."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if limit == resource.RLIM_INFINITY or os.getuid() == 0:
        return None
    try:
        lines = (proc_root / "self" / "status").read_text().splitlines()
        effective = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
    except (OSError, StopIteration, ValueError, IndexError):
        effective = 0
    return None if effective & UNLIMITED else limit


def _threads_of_user(proc_root: Path) -> int:
    """The threads of all processes of this user that can be seen here."""
    threads = 0
    for entry in proc_root.iterdir():
        try:
            if entry.name.isdigit() and entry.stat().st_uid == os.getuid():
                threads += sum(1 for _ in (entry / "task").iterdir())
        except OSError:
            continue  # it has ended meanwhile
    return threads


def loopback_problem() -> str:
    """Why a process cannot reach another one of this host at 127.0.0.1; empty if it can."""
    try:
        with socket.create_server((LOOPBACK, 0)) as server:
            socket.create_connection(server.getsockname(), CONNECT_S).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def localhost_elsewhere() -> str:
    """The first address of the name localhost that is no loopback address; empty if there is none."""
    try:
        found = socket.getaddrinfo("localhost", None)
    except OSError:  # who does not know the name uses 127.0.0.1
        return ""
    addresses = [str(address[0]) for *_, address in found]
    return next((one for one in addresses if not ip_address(one.partition("%")[0]).is_loopback), "")


def free_mib(folder: Path) -> float:
    """The room that this user has in a folder, MiB; 0 where there is no such folder."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0.0
    return found.f_bavail * found.f_frsize / MIB
