"""A file without a name: it is gone as soon as the process that opened it has ended."""

import errno
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from rigproof.host.proc import PROC

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
