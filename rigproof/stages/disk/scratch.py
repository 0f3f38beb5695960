"""A file without a name: it is gone as soon as the process that opened it has ended. Standard library only.

Data are random words with the number of their page in each page, so that no disk can compress them or store
one page for several, and a page in the wrong place shows.
"""

import errno
import mmap
import os
import secrets
import struct
from pathlib import Path

CHUNK_BYTES = 2**24
PAGE_BYTES = 4096  # what O_DIRECT must be aligned to, on any disk
STAMP = struct.Struct("<QQ")
# Errors of a file system that cannot do this; others are about the folder or the disk.
NO_TMPFILE = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL)


class ScratchFile:
    """The file; `direct` if its data do not pass through the page cache. OSError if it cannot be created."""

    def __init__(self, folder: str) -> None:
        self.direct = True
        try:
            self._file = _unnamed(folder, os.O_DIRECT)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            self.direct = False
            self._file = _unnamed(folder, 0)

    def write(self, buffer: mmap.mmap, at: int) -> None:
        """Write a chunk at that offset, to the disk. OSError as write(2) and fdatasync(2) have it."""
        view = memoryview(buffer)
        try:
            self._write_all(view, at)
        except OSError as error:
            # Some file systems accept O_DIRECT when a file is opened, and refuse it when it is used.
            if error.errno != errno.EINVAL or not self.direct or at:
                raise
            self._without_direct()
            self._write_all(view, at)
        finally:
            view.release()
        if not self.direct:
            os.fdatasync(self._file)

    def written(self) -> None:
        """Have the disk keep all of it, and the page cache nothing. OSError as in `write`."""
        os.fdatasync(self._file)
        os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)

    def read(self, buffer: mmap.mmap, at: int) -> None:
        """Read a chunk from that offset. OSError as read(2) has it, or if the file is shorter."""
        with memoryview(buffer) as view:
            done = 0
            while done < len(view):
                with view[done:] as rest:
                    count = os.preadv(self._file, [rest], at + done)
                if not count:
                    raise OSError(errno.EIO, "the file is shorter than what was written")
                done += count
        if not self.direct:
            os.posix_fadvise(self._file, at, len(buffer), os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """Let the file go, and its space with it."""
        os.close(self._file)

    def _write_all(self, view: memoryview, at: int) -> None:
        done = 0
        while done < len(view):
            with view[done:] as rest:
                done += os.pwritev(self._file, [rest], at + done)

    def _without_direct(self) -> None:
        import fcntl  # noqa: PLC0415 - seldom

        flags = fcntl.fcntl(self._file, fcntl.F_GETFL)
        fcntl.fcntl(self._file, fcntl.F_SETFL, flags & ~os.O_DIRECT)
        self.direct = False


class Chunks:
    """The content of each chunk. `size`: of one, a multiple of PAGE_BYTES."""

    def __init__(self, size: int = CHUNK_BYTES) -> None:
        self.size = size
        self._seed = secrets.randbits(63)
        self._words = mmap.mmap(-1, size)  # page-aligned, as O_DIRECT wants it
        self._words.write(os.urandom(size))

    def make(self, number: int) -> mmap.mmap:
        """Chunk `number`; the next call changes it."""
        first = number * (self.size // PAGE_BYTES)
        for page in range(self.size // PAGE_BYTES):
            STAMP.pack_into(self._words, page * PAGE_BYTES, self._seed, first + page)
        return self._words

    def differing(self, read: mmap.mmap, number: int) -> int | None:
        """The offset in the file of the first byte that is not that of chunk `number`; None if all are."""
        expected = self.make(number)
        got, wanted = read[:], expected[:]
        if got == wanted:
            return None
        place = next(
            place for place, (one, other) in enumerate(zip(got, wanted, strict=True)) if one != other
        )
        return number * self.size + place


def _unnamed(folder: str, flags: int) -> int:
    """A file without a name: never given one, or robbed of it at once where the file system needs one."""
    flags |= os.O_RDWR | os.O_CLOEXEC
    try:
        return os.open(folder, flags | os.O_TMPFILE, 0o600)
    except OSError as error:
        if error.errno not in NO_TMPFILE:
            raise
    path = Path(folder) / f".rigproof-{secrets.token_hex(8)}"
    try:
        file = os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    finally:
        path.unlink(missing_ok=True)  # O_DIRECT may be refused once the file is there
    return file
