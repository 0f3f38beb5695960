"""Limits for reading files that others may have written: sizes that no genuine file reaches.

A file may come from anyone. So before a byte is read, it must be a regular file (a pipe could block for ever,
a device has no end) within the size limit for its kind; and no more than that limit is then read.
"""

import os
import stat
from pathlib import Path
from typing import IO

MIB = 2**20
GIB = 2**30

# Values in a document: `[[],[],…` takes 40 times its length in memory, and pydantic as much again for
# each missing key. The profile of a rig of 16,384 GPUs has some 250,000.
VALUES_MAX = 400_000
# Values in a line of a recording: a stage of 16,384 GPUs has each one's memory policy, which takes 460,000.
LINE_VALUES_MAX = 600_000
# Files that are read whole.
PROFILE_BYTES_MAX = MIB  # a profile is a page of text; a thousand nodes written out take half of this
HISTORY_BYTES_MAX = 16 * MIB  # some 1.3 kB for each GPU and throughput criterion: 1,500 GPUs
CHAMPIONS_BYTES_MAX = 16 * MIB  # a run's profile takes some 20 kB; there is one for each power limit
# Of this one, only the first 4 KiB are read.
VERDICT_BYTES_MAX = 4 * GIB  # some 300 bytes for each criterion and subject: 142 MB for 16,384 GPUs
# Files that are read piece by piece.
RECORDING_BYTES_MAX = 4 * GIB  # a large rig writes far less in a day
RECORDING_LINE_BYTES_MAX = 32 * MIB  # a stage of 16,384 GPUs names them all, each with its task


class FileRefusedError(Exception):
    """A file that is not read: absent, not regular, or too large; names the file, its size and the limit."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.reason = reason  # without the file's name


def open_plain(path: Path, limit_bytes: int) -> IO[bytes]:
    """The file, open for reading; it is a regular file of `limit_bytes` at most, and opening it cannot hang.

    It may still grow: whoever reads all of it must stop at `limit_bytes`. Raises FileRefusedError.
    """
    try:
        _require_plain(path, path.stat(), limit_bytes)  # a device is not even opened: some react to that
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _require_plain(path, os.fstat(descriptor), limit_bytes)  # it may have been replaced in between
            return os.fdopen(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as error:
        raise FileRefusedError(path, error.strerror or type(error).__name__) from None
    except ValueError:  # a NUL character in the path
        raise FileRefusedError(path, "is not a valid path") from None


def require_inside(path: Path, folder: Path) -> None:
    """Refuse a symbolic link that leads out of the file's folder. Raises FileRefusedError."""
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError) as error:
        raise FileRefusedError(path, str(error)) from None
    if not inside:
        raise FileRefusedError(path, f"a symbolic link leads out of {folder}")


def read_bounded(path: Path, limit_bytes: int) -> bytes:
    """The content of a regular file of `limit_bytes` at most. Raises FileRefusedError."""
    with open_plain(path, limit_bytes) as file:
        try:
            content = file.read(limit_bytes + 1)
        except OSError as error:
            raise FileRefusedError(path, error.strerror or type(error).__name__) from None
    if len(content) > limit_bytes:
        raise FileRefusedError(path, f"grew to more than {limit_bytes} bytes while it was read")
    return content


def read_document(path: Path, limit_bytes: int) -> bytes:
    """The content of a JSON file of at most `limit_bytes` and VALUES_MAX values. Raises FileRefusedError."""
    content = read_bounded(path, limit_bytes)
    if has_too_many_values(content, VALUES_MAX):
        raise FileRefusedError(path, f"has more than {VALUES_MAX} values, the most that it can have")
    return content


def has_too_many_values(document: bytes, most: int) -> bool:
    """Whether JSON has more than `most` values and keys. Separators inside texts count too."""
    if len(document) < most:  # each takes at least a byte
        return False
    return sum(document.count(mark) for mark in (b",", b"[", b"{")) > most


def _require_plain(path: Path, found: os.stat_result, limit_bytes: int) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise FileRefusedError(path, "is a folder, not a file")
    if not stat.S_ISREG(found.st_mode):
        raise FileRefusedError(path, "is not a regular file")
    if found.st_size > limit_bytes:
        raise FileRefusedError(path, f"{found.st_size} bytes are more than the {limit_bytes} it can have")
