"""The lock of a host: one run at a time has it, and whoever finds it taken can read which run that is.

It is one file for all users, `rigproof.lock` in $RIGPROOF_LOCK_DIR, else in the first of /run/lock and /tmp
in which every user may make files. flock(2) takes it: the kernel releases it when its holder ends, however
that happens, so that a killed run or a restart leaves nothing to be cleaned up. What the file says counts
only while somebody holds the lock. Containers that share GPUs exclude each other if they share that folder.
"""

import contextlib
import fcntl
import json
import os
import socket
import stat
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from rigproof.host.processes import user_name
from rigproof.records.message_text import one_line

VARIABLE = "RIGPROOF_LOCK_DIR"
FOLDERS = (Path("/run/lock"), Path("/tmp"))  # noqa: S108 - it is opened as a file that anybody may have made
FILE = "rigproof.lock"
EVERYBODYS = 0o666
BYTES_MAX = 4096
ANEW = 3  # times that the file may be replaced while it is taken


@dataclass(frozen=True, slots=True)
class Claim:
    """A run that has a host, or wants it: its driver's process, user and host, and its folder there.

    `since_s`: seconds since 1970.
    """

    run_id: str
    host: str
    pid: int
    user: str
    since_s: float
    folder: str

    @classmethod
    def of(cls, run_id: str, folder: Path) -> "Claim":
        """The claim of a run whose driver is this process."""
        user = user_name(os.getuid())
        return cls(
            run_id, socket.gethostname(), os.getpid(), user, round(time.time(), 3), str(folder.absolute())
        )

    def __str__(self) -> str:
        """`pid 4242 of user ml on box, since 2026-11-25 14:03:21, which writes to /srv/reports/runs/…`."""
        since = datetime.fromtimestamp(self.since_s).astimezone().isoformat(" ", "seconds")
        return (
            f"pid {self.pid} of user {self.user} on {self.host}, since {since}, which writes to {self.folder}"
        )


UNKNOWN = "another run of rigproof, which does not say who it is"


class HostLock:
    """This host's lock, which this process may take for a run."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment
        self._descriptor: int | None = None

    def take(self, claim: Claim) -> Claim | str | None:
        """Take the lock for this run. Returns the run that has it, as far as known; None if it is ours now.

        A host on which it cannot be taken at all (a read-only or foreign folder, a file system without locks)
        is free: who computes on its GPUs is named all the same.
        """
        if self._descriptor is not None:
            return None
        for _ in range(ANEW):
            try:
                path = _folder(self._environment) / FILE
                descriptor = _opened(path)
            except OSError:
                return None
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_still(descriptor, path):
                    _write(descriptor, json.dumps(asdict(claim)).encode())
                    self._descriptor, descriptor = descriptor, -1
                    return None
            except BlockingIOError:
                holder = _read(descriptor)
                return None if holder == claim else holder  # another agent of the same run has it
            except OSError:
                return None
            finally:
                if descriptor >= 0:
                    os.close(descriptor)
        return None

    def release(self) -> None:
        """Release the lock. A second call does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            _write(descriptor, b"")
            os.close(descriptor)


def unusable(environment: Mapping[str, str] = os.environ) -> str:
    """Why no lock can be taken in the folder that VARIABLE names; empty if one can, or if it names none."""
    if not environment.get(VARIABLE):
        return ""
    try:
        os.close(_opened(_folder(environment) / FILE))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _folder(environment: Mapping[str, str]) -> Path:
    """The lock's folder, chosen by its mode alone, so that all users choose the same one."""
    if stated := environment.get(VARIABLE):
        return Path(stated)
    for one in FOLDERS:
        with contextlib.suppress(OSError):
            if stat.S_IMODE(one.stat().st_mode) & 0o007 == 0o007:
                return one
    return FOLDERS[-1]


def _opened(path: Path) -> int:
    """The lock's file, open, and made if needed. OSError if it is no file, or is another user's own."""
    flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        # In a sticky folder the kernel refuses O_CREAT for another user's file (fs.protected_regular).
        descriptor = os.open(path, os.O_RDWR | flags)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | flags, EVERYBODYS)
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, EVERYBODYS)  # whatever the umask
    except PermissionError:
        descriptor = os.open(path, os.O_RDONLY | flags)  # that suffices for the lock
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no file")
    return descriptor


def _is_still(descriptor: int, path: Path) -> bool:
    """Whether the path still leads to the open file, which may have been removed before it was locked."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _write(descriptor: int, content: bytes) -> None:
    with contextlib.suppress(OSError):  # another user's file, or a full disk: the lock holds all the same
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, content, 0)


def _read(descriptor: int) -> Claim | str:
    """The holder as the file names it. Anybody can have written that."""
    try:
        said = Claim(**json.loads(os.pread(descriptor, BYTES_MAX, 0)))
        claim = Claim(
            run_id=one_line(str(said.run_id)),
            host=one_line(str(said.host)),
            pid=int(said.pid),
            user=one_line(str(said.user)),
            since_s=float(said.since_s),
            folder=one_line(str(said.folder)),
        )
        str(claim)  # raises for a time that is none
    except (OSError, ValueError, TypeError, OverflowError):
        return UNKNOWN
    return claim
