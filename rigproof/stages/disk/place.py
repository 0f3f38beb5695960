"""The folder in which the file is written: its file system and free space. Standard library only."""

import errno
import os
import re
from dataclasses import dataclass
from pathlib import Path

from rigproof.host.proc import PROC

GIB = 2**30
IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
ESCAPED = re.compile(r"\\([0-7]{3})")  # blanks and the like in mountinfo (proc(5))


@dataclass(frozen=True, slots=True)
class Place:
    """A folder: its file system's type, what is mounted, and its space in bytes (statvfs(3))."""

    path: str
    filesystem: str
    device: str
    total: int
    free: int  # for users; the administrator's reserve is not
    used: int

    @property
    def in_memory(self) -> bool:
        """Whether its file system keeps files in RAM."""
        return self.filesystem in IN_MEMORY

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
    """Type and source of the file system of a folder: the last mount of the longest path that leads to it.

    Lines of mountinfo (proc(5)): `ID PARENT MAJOR:MINOR ROOT MOUNT_POINT OPTIONS … - TYPE SOURCE …`.
    """
    best, found = -1, ("unknown", "unknown")
    try:
        lines = (proc_root / "self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return found
    for line in lines:
        left, _, right = line.partition(" - ")
        columns, kind = left.split(), right.split()
        if len(columns) < 5 or len(kind) < 2:
            continue
        point = Path(_plain(columns[4]))
        if folder.is_relative_to(point) and len(point.parts) >= best:
            best, found = len(point.parts), (kind[0], _plain(kind[1]))
    return found


def _plain(text: str) -> str:
    return ESCAPED.sub(lambda one: chr(int(one[1], 8)), text)
