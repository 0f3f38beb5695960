"""The folder in which the file is written: its file system and its space."""

import errno
import os
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rigproof.host.proc import PROC

IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
RAM_DISK = re.compile(r"/dev/z?ram\d+")
UPPER = re.compile(r"(?:^|,)upperdir=([^,]*)")  # where an overlay keeps what is written to it
ESCAPED = re.compile(r"\\([0-7]{3})")  # blanks and the like in /proc/mounts (fstab(5))


@dataclass(frozen=True, slots=True)
class Place:
    """A folder: its file system's type, what is mounted, and its space in bytes (statvfs(3)).

    An overlay that keeps its files in RAM has the type of both, such as "overlay on tmpfs".
    """

    path: str
    filesystem: str = "unknown"
    device: str = "unknown"
    total: int = 0
    used: int = 0
    free: int = 0  # for users; the administrator's reserve is not

    @property
    def memory(self) -> str | None:
        """What keeps its files in RAM, its file system or the device that this is on; None if none does."""
        if self.filesystem.rsplit(maxsplit=1)[-1] in IN_MEMORY:
            return self.filesystem
        return self.device if RAM_DISK.fullmatch(self.device) else None

    @property
    def used_share(self) -> float:
        """Of what users may use, as `df` shows it."""
        return self.used / max(1, self.used + self.free)


def place_of(path: str, proc_root: Path = PROC) -> Place:
    """The folder's place. OSError if there is no such folder, or it must not be looked at."""
    try:
        folder = Path(path).expanduser().resolve(strict=True)
    except RuntimeError as error:  # the user has no home
        raise FileNotFoundError(errno.ENOENT, str(error)) from None
    filesystem, device, options = _mount(folder, proc_root)
    upper = UPPER.search(options) if filesystem == "overlay" else None
    # A container does not see where its overlay is kept: that path of its host may be anywhere.
    if upper is not None and os.access(upper[1], os.F_OK):
        below = Place("", *_mount(Path(upper[1]), proc_root)[:2])
        if below.memory is not None:
            filesystem, device = f"{filesystem} on {below.filesystem}", below.device
    return Place(str(folder), filesystem, device, *shutil.disk_usage(folder))


def _mount(folder: Path, proc_root: Path) -> tuple[str, str, str]:
    """Type, source and options of a folder's file system: the last mount of the longest path to it."""
    found, depth = ("unknown", "unknown", ""), 0
    with suppress(OSError):
        for line in (proc_root / "self/mounts").read_text(errors="replace").splitlines():
            device, point, filesystem, options = (
                ESCAPED.sub(lambda code: chr(int(code[1], 8)), one) for one in line.split()[:4]
            )
            parts = len(Path(point).parts)
            if folder.is_relative_to(point) and parts >= depth:
                found, depth = (filesystem, device, options), parts
    return found
