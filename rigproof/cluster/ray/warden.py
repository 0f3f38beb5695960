"""A process that outlives the driver of a Ray of our own, and clears up behind one that was killed.

Most of Ray ends with the driver, but two of its helpers notice only after a minute, and nobody removes its
folder. The warden learns of the driver's end by the end of its stdin; where the folder is gone by then, the
driver has cleared up by itself.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from rigproof.host import processes
from rigproof.host.package import ROOT
from rigproof.host.processes import PROC, ProcessId

MODULE = "rigproof.cluster.ray.warden"
BOOT = f"import sys, runpy; sys.path.append(sys.argv[1]); runpy.run_module({MODULE!r}, run_name='__main__')"
GRACE_S = 2.0  # for Ray's processes to end by themselves
CLEAR_S = 10.0  # to kill those that do not
STEP_S = 0.2


class Warden:
    """Watches over `folder` from its making until `dismiss`, also where this process is killed meanwhile."""

    def __init__(self, folder: Path) -> None:
        # The folder is told by stdin: who looks for processes that name it must not find this one.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", BOOT, str(ROOT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(f"{folder}\n".encode())
        self._process.stdin.flush()

    def dismiss(self, timeout_s: float = 2.0) -> None:
        """The folder is gone: nothing is left to do."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout_s)


def writers(folder: Path, session: int, proc: Path = PROC) -> frozenset[ProcessId]:
    """Processes of that session (setsid(2)) that have a file below `folder` open to write to it."""
    found = set()
    for entry in proc.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if os.getsid(int(entry.name)) == session and _writes(entry, folder):
                process = processes.process_id(int(entry.name), proc)
                found |= {process} if process is not None else set()
    return frozenset(found)


def clear(folder: Path, session: int) -> None:
    """Wait a little for its writers to end, kill those that do not, and remove the folder."""
    begun_s = time.monotonic()
    while left := writers(folder, session):
        passed_s = time.monotonic() - begun_s
        if passed_s > GRACE_S:
            for process in left:
                processes.kill(process)
        if passed_s > GRACE_S + CLEAR_S:
            break
        time.sleep(STEP_S)
    shutil.rmtree(folder, ignore_errors=True)


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


def main() -> None:
    """Read the folder's name, wait for the end of stdin, and clear up what is left then."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # what ends the driver is not meant for its warden
    name = sys.stdin.readline().rstrip("\n")
    while os.read(0, 4096):
        pass
    folder = Path(name)
    if name and folder.is_dir():
        clear(folder, os.getsid(0))


if __name__ == "__main__":
    main()
