"""Files that are never half written: appended to in whole pieces, or replaced in one step."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class GrowingFile:
    """A file that only grows by whole pieces, each on the disk when `append` returns.

    A partly written piece (a full disk, an interrupt in the middle of it) is cut off before the next.
    """

    def __init__(self, path: Path) -> None:
        """Create the file, empty. Raises OSError."""
        self.file: IO[bytes] = path.open("wb")
        self._end = 0

    def append(self, write: Callable[[], object]) -> None:
        """Let `write` write one piece to `file`, then sync it to the disk. Raises OSError."""
        if self.file.tell() != self._end:
            self.file.seek(self._end)
            self.file.truncate()
        write()
        self.file.flush()
        os.fsync(self.file.fileno())
        self._end = self.file.tell()

    def close(self) -> None:
        """Close it. Raises OSError if its last bytes do not fit, and closes it all the same."""
        self.file.close()


def sync_folder(folder: Path) -> None:
    """Have the names in it on the disk, as far as its file system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """A file that takes `target`'s name once it is complete and on the disk. Raises OSError.

    On failure, `target` is unchanged and no partial file remains. If `target` is a symbolic link, the link
    is replaced and the file it points at is not touched.
    """
    part = target.with_name(f"{target.name}.part")
    with contextlib.suppress(FileNotFoundError):
        part.unlink()  # left by a crash, or a link that somebody put there
    try:
        with os.fdopen(os.open(part, NEW_FILE, 0o666), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
