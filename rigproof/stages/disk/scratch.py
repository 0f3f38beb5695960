"""The folder in which the file is written, its file system and space, and the file: it never has a name.

It is gone as soon as the process that opened it has ended.
"""

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

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
        """The used share of the space that users may use, as `df` shows it."""
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


Bytes = npt.NDArray[np.uint8]


class ScratchFile:
    """The file; `direct` if its data do not pass through the page cache. OSError if it cannot be created.

    What is written and read must be aligned to pages, as O_DIRECT wants it.
    """

    def __init__(self, folder: str) -> None:
        # It never has a name or, where the file system needs one (NFS does), loses it at once.
        self._cached = tempfile.TemporaryFile(dir=folder, prefix=".rigproof-", buffering=0)  # noqa: SIM115
        self._file = self._cached.fileno()
        with suppress(OSError):  # some file systems know no direct access
            again = PROC / f"self/fd/{self._file}"
            self._file = os.open(again, os.O_RDWR | os.O_CLOEXEC | os.O_DIRECT)

    @property
    def direct(self) -> bool:
        return self._file != self._cached.fileno()

    def write(self, data: Bytes, at: int) -> None:
        """Write at that offset, to the disk. OSError as write(2) and fdatasync(2) have it."""
        try:
            self._whole(os.pwritev, data, at)
        except OSError as error:
            # Some file systems accept O_DIRECT when a file is opened, and refuse it when it is used.
            if error.errno != errno.EINVAL or not self.direct or at:
                raise
            os.close(self._file)
            self._file = self._cached.fileno()
            self._whole(os.pwritev, data, at)
        if not self.direct:
            os.fdatasync(self._file)

    def written(self) -> None:
        """Have the disk keep all of it, and the page cache nothing. OSError as in `write`."""
        os.fdatasync(self._file)
        os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)

    def read(self, data: Bytes, at: int) -> None:
        """Read from that offset. OSError as read(2) has it, or if the file is shorter."""
        self._whole(os.preadv, data, at)
        if not self.direct:
            os.posix_fadvise(self._file, at, len(data), os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """Let the file go, and its space with it."""
        if self.direct:
            os.close(self._file)
        self._cached.close()

    def _whole(self, call: Callable[..., int], data: Bytes, at: int) -> None:
        """Call until all is done: the system may do a part at a time."""
        done = 0
        while done < len(data):
            count = call(self._file, [data[done:]], at + done)
            if not count:
                raise OSError(errno.EIO, "the file is shorter than what was written")
            done += count
