"""The folder of a node's own disk where its agents leave their last words: for this user alone.

`$RIGPROOF_STATE_HOME`, else `$XDG_STATE_HOME/rigproof`, else `~/.local/state/rigproof`; below `black-box` in
it a folder for each host, since homes may be shared, and in that a file for each agent of each run. Its
writer holds its lock (flock(2)), so that a file whose lock is free belongs to a run that is over.
"""

import contextlib
import fcntl
import os
import re
import socket
import stat
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rigproof.records.black_box import Box, Reported, read_box, text_of, together
from rigproof.records.limits import MIB, FileRefusedError, open_plain

VARIABLE = "RIGPROOF_STATE_HOME"
SUFFIX, PART_SUFFIX = ".jsonl", ".part"
OWN_NAME = re.compile(r"[^~]+~[^~]+~\d+-\d+(\.jsonl|\.part)")
BOX_BYTES_MAX = 4 * MIB  # a file is restarted long before that
FILES_KEPT = 16
OURS_ALONE, FILE_OURS_ALONE = 0o700, 0o600
MACHINE_ID = Path("/etc/machine-id")


@dataclass(frozen=True, slots=True)
class Host:
    """A machine's identity: its name and, where it has one, /etc/machine-id."""

    name: str
    machine: str | None


@dataclass(frozen=True, slots=True)
class FoundRun:
    """The traces of one run on this host. `going_on`: a process still writes them."""

    box: Box
    files: tuple[Path, ...]
    going_on: bool


def this_host() -> Host:
    """This machine, as its agents write it into the files here."""
    try:
        machine = MACHINE_ID.read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        machine = None
    return Host(socket.gethostname(), machine)


def host_folder(host: Host, environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of this host's files. Raises OSError without a home folder."""
    stated = environment.get(VARIABLE)
    state_home = environment.get("XDG_STATE_HOME", "")
    if stated:
        root = Path(stated)
    elif state_home.startswith("/"):  # a relative one is to be ignored (XDG Base Directory Specification)
        root = Path(state_home) / "rigproof"
    else:
        try:
            root = Path.home() / ".local" / "state" / "rigproof"
        except RuntimeError as error:
            raise OSError(str(error)) from None
    return root / "black-box" / _plain(host.name)


def make_folder(folder: Path) -> None:
    """Make the folder, for this user alone. Raises OSError if that fails or if it belongs to another user.

    Existing parent folders stay as they are, since other programs may use them.
    """
    for one in reversed((folder, *folder.parents)):
        one.mkdir(mode=OURS_ALONE, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid():
            raise PermissionError(f"{folder} is another user's")
        if stat.S_IMODE(found.st_mode) != OURS_ALONE:
            os.fchmod(descriptor, OURS_ALONE)
    finally:
        os.close(descriptor)


def file_name(run_id: str, node: str, pid: int) -> str:
    """A new file name for one agent: unique each time, since a restarted host reuses process ids."""
    return f"{_plain(run_id)}~{_plain(node)}~{pid}-{time.time_ns()}{SUFFIX}"


def runs_of(host: Host, folder: Path) -> list[FoundRun]:
    """The runs that left files on this host, the latest last; files that are not ours are left out."""
    groups: dict[tuple[str, str], list[tuple[Box, Path, bool]]] = defaultdict(list)
    for path in _oldest_first(folder):
        found = _read(path)
        if found is not None and (found[0].head.host, found[0].head.machine) == (host.name, host.machine):
            head = found[0].head
            groups[head.run_id, head.node].append((found[0], path, found[1]))
    runs = []
    for group in groups.values():
        box = together(one for one, _, _ in group)
        if box is not None:
            runs.append(FoundRun(box, tuple(path for _, path, _ in group), any(held for *_, held in group)))
    return runs


def mark_reported(run: FoundRun, run_id: str) -> None:
    """Note in a run's files that a later run has reported it. If that fails, it is reported again."""
    for path in run.files:
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(descriptor, "wb") as file:
                file.write(b"\n" + text_of(Reported(run_id)))  # also after a torn line
                file.flush()
                os.fsync(file.fileno())


def tidy(folder: Path) -> None:
    """Remove the oldest files, except those that are still being written."""
    for path in _oldest_first(folder)[:-FILES_KEPT]:
        found = _read(path)
        if found is None or not found[1]:
            with contextlib.suppress(OSError):
                path.unlink()


def _oldest_first(folder: Path) -> list[Path]:
    dated = []
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if OWN_NAME.fullmatch(path.name):
                with contextlib.suppress(OSError):
                    dated.append((path.lstat().st_mtime, path.name, path))
    return [path for _, _, path in sorted(dated)]


def _read(path: Path) -> tuple[Box, bool] | None:
    """A file's content, and whether a process still writes it; None if it has no content or is not ours."""
    try:
        with open_plain(path, BOX_BYTES_MAX) as file:
            found = os.fstat(file.fileno())
            if found.st_uid != os.geteuid():
                return None
            held = _is_held(file.fileno()) or not os.path.samestat(found, path.stat())
            box = read_box(file.read(BOX_BYTES_MAX))
    except (FileRefusedError, OSError):
        return None
    return None if box is None else (box, held)


def _is_held(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks: a live writer looks the same as a dead one
        return False
    return False


def _plain(name: str) -> str:
    """The name as one part of a path."""
    return re.sub(r"[^\w.-]", "_", name)[:100].lstrip(".") or "_"
