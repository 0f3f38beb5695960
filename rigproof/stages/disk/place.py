"""The folder in which the file is written: its file system and free space. Standard library only."""

import errno
import os
import re
from dataclasses import dataclass
from pathlib import Path

from rigproof.host.proc import PROC

GIB = 2**30
IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
RAM_DISK = re.compile(r"/dev/z?ram\d+")
UPPER = re.compile(r"(?:^|,)upperdir=([^,]*)")  # where an overlay keeps what is written to it
ESCAPED = re.compile(r"\\([0-7]{3})")  # blanks and the like in mountinfo (proc(5))


@dataclass(frozen=True, slots=True)
class Place:
    """A folder: its file system's type, what is mounted, and its space in bytes (statvfs(3)).

    An overlay that keeps its files in RAM has the type of both, such as "overlay on tmpfs".
    """

    path: str
    filesystem: str
    device: str
    total: int
    free: int  # for users; the administrator's reserve is not
    used: int

    @property
    def memory(self) -> str | None:
        """What keeps its files in RAM, its file system or the device that this is on; None if none does."""
        return _in_memory(self.filesystem, self.device)

    @property
    def used_share(self) -> float:
        """Of what users may use, as `df` shows it."""
        usable = self.used + self.free
        return self.used / usable if usable else 0.0


def place_of(path: str, proc_root: Path = PROC) -> Place:
    """The folder's place. OSError if there is no such folder, or it must not be looked at."""
    try:
        folder = Path(path).expanduser().resolve(strict=True)
    except RuntimeError as error:  # the user has no home
        raise FileNotFoundError(errno.ENOENT, str(error)) from None
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    space = os.statvfs(folder)
    filesystem, device = _mounted(folder, proc_root)
    return Place(
        path=str(folder),
        filesystem=filesystem,
        device=device,
        total=space.f_blocks * space.f_frsize,
        free=space.f_bavail * space.f_frsize,
        used=(space.f_blocks - space.f_bfree) * space.f_frsize,
    )


def _mounted(folder: Path, proc_root: Path) -> tuple[str, str]:
    """Type and source of the file system of a folder; of an overlay in RAM also what it is on.

    A container does not see where its overlay is kept: that of its host may be anywhere.
    """
    try:
        lines = (proc_root / "self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "unknown", "unknown"
    kind, source, options = _nearest(folder, lines)
    upper = UPPER.search(options) if kind == "overlay" else None
    if upper is not None:
        kept = Path(_plain(upper[1]))
        below, below_source, _ = _nearest(kept, lines)
        if _in_memory(below, below_source) is not None and os.access(kept, os.F_OK):
            return f"{kind} on {below}", below_source
    return kind, source


def _in_memory(filesystem: str, device: str) -> str | None:
    if filesystem.rsplit(maxsplit=1)[-1] in IN_MEMORY:
        return filesystem
    return device if RAM_DISK.fullmatch(device) else None


def _nearest(folder: Path, lines: list[str]) -> tuple[str, str, str]:
    """Type, source and options of a folder's file system: the last mount of the longest path to it.

    Lines of mountinfo (proc(5)): `ID PARENT MAJOR:MINOR ROOT MOUNT_POINT OPTIONS … - TYPE SOURCE OPTIONS`.
    """
    best, found = -1, ("unknown", "unknown", "")
    for line in lines:
        left, _, right = line.partition(" - ")
        columns, kind = left.split(), right.split()
        if len(columns) < 5 or len(kind) < 2:
            continue
        point = Path(_plain(columns[4]))
        if folder.is_relative_to(point) and len(point.parts) >= best:
            best, found = len(point.parts), (kind[0], _plain(kind[1]), "".join(kind[2:3]))
    return found


def _plain(text: str) -> str:
    return ESCAPED.sub(lambda one: chr(int(one[1], 8)), text)
