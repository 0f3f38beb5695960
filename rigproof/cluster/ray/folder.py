"""The folder of a Ray of our own: created, locked while its run lives, recognised and removed once stale.

`python -m rigproof.cluster.ray.folder` is the warden of a folder, a process that outlives the driver and
cleans up after one that was killed. Most of Ray ends with the driver, but two of its helpers notice only
after a minute, and its folder is never removed. The warden learns of the driver's end by the end of its
stdin; if the folder is gone by then, the driver has cleaned up itself.
"""

import contextlib
import fcntl
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rigproof.host import processes
from rigproof.host.child import Child
from rigproof.host.parent import Orders

FOLDER_PREFIX = "rigproof-ray-"
SOCKET_PATH_BYTES = 107  # sockaddr_un, unix(7)
OBJECT_STORE_BYTES = 78_643_200  # the smallest that Ray accepts
# How a process of Ray says on stderr what failed, after its log's time and place.
FAILED = re.compile(
    r"^(?:\[[^\]]*\] (?:\(\w+\) )?\w+\.cc:\d+: )?(.*(?:[Ee]rror: |[Ee]xception: |not registered|failed).*)$",
    re.MULTILINE,
)
FAILED_BYTES, FAILED_CHARACTERS, FAILED_LINES = 2**16, 200, 2
SESSION_PATH = "/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store"
LONGEST_ROOT_BYTES = SOCKET_PATH_BYTES - len(f"/{FOLDER_PREFIX}4194304-abcdefgh{SESSION_PATH}")

MODULE = "rigproof.cluster.ray.folder"
GRACE_S = 2.0  # for Ray's processes to end by themselves, once their driver is gone
CLEAR_S = 10.0  # to kill those that do not
STEP_S = 0.2


def make_folder() -> Path:
    """An empty folder for a Ray of this process, named after it."""
    return Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-", dir=temp_root()))


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Lock the folder, so that no other run takes it for stale. The kernel releases it at this process's end.

    A run in another container that shares this /tmp cannot see this process, but it sees its lock: flock(2).
    """
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(opened)


def remove_stale_folders(root: Path) -> None:
    """Remove the folders of runs that were killed before they could remove them."""
    for folder in root.glob(f"{FOLDER_PREFIX}*"):
        pid = folder.name.removeprefix(FOLDER_PREFIX).partition("-")[0]
        if pid.isdigit() and _own(folder) and processes.process_id(int(pid)) is None and not _held(folder):
            shutil.rmtree(folder, ignore_errors=True)


def temp_root() -> Path:
    """The system's temporary folder, or /tmp if its path is too long for Ray's sockets."""
    root = Path(tempfile.gettempdir())
    return root if len(os.fsencode(root)) <= LONGEST_ROOT_BYTES else Path("/tmp")  # noqa: S108 - mkdtemp inside


def last_lines(folder: Path) -> str:
    """The last lines about what failed that the processes of the Ray in this folder wrote; empty if none."""
    found: dict[str, None] = {}
    files = sorted((folder / "session_latest" / "logs").glob("*.err"), key=_changed_s, reverse=True)
    for file in files:
        with contextlib.suppress(OSError):
            text = file.read_bytes()[-FAILED_BYTES:].decode(errors="replace")
            for line in list(FAILED.finditer(text))[-1:]:
                found[line[1].strip()[:FAILED_CHARACTERS]] = None
    return "; ".join([*found][:FAILED_LINES])


def _changed_s(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _own(folder: Path) -> bool:
    try:
        return folder.is_dir() and not folder.is_symlink() and folder.stat().st_uid == os.getuid()
    except OSError:
        return False


def _held(folder: Path) -> bool:
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return True  # whatever it is, it is not ours to remove
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # a file system without locks
    finally:
        os.close(opened)
    return False


class Warden(Child):
    """Watches over `folder` from its creation until `stop`, even if this process is killed in between.

    Call `stop` once the folder is gone: nothing is left to do then.
    """

    def __init__(self, folder: Path) -> None:
        # The folder comes by stdin: a search for processes that name it must not find this one.
        super().__init__(MODULE)
        self.tell(folder=str(folder))


def clear(folder: Path, session: int) -> None:
    """Wait a little for its writers to end, kill those that do not, and remove the folder."""
    begun_s = time.monotonic()
    while left := processes.writers(folder, session):
        passed_s = time.monotonic() - begun_s
        if passed_s > GRACE_S:
            for process in left:
                processes.kill(process)
        if passed_s > GRACE_S + CLEAR_S:
            break
        time.sleep(STEP_S)
    shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Read the folder's name, wait for the end of stdin, and clean up what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a signal that ends the driver is not meant for its warden
    orders = Orders(grace_s=None)  # it outlives the driver: only then its work begins
    order = orders.next()
    orders.closed.wait()
    if order is not None and (folder := Path(order["folder"])).is_dir():
        clear(folder, os.getsid(0))


if __name__ == "__main__":
    main()
