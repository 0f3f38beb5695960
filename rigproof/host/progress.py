"""How far a rank's process came in the operations of its step: a number in memory that its worker reads.

A message for each operation would cost more than a small one takes; and a process that hangs sends none.
"""

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FILE = "RIGPROOF_PROGRESS_FILE"  # the variable with which a process is told where it is
BYTES = 8


class Progress:
    """The process's side. Halves of operations: an odd number is inside of one."""

    def __init__(self) -> None:
        self._halves: mmap.mmap | bytearray = bytearray(BYTES)  # that nobody reads
        if path := os.environ.get(FILE):
            with suppress(OSError), Path(path).open("r+b") as file:
                self._halves = mmap.mmap(file.fileno(), BYTES)

    def begin_step(self) -> None:
        """No operation of the next step has begun."""
        self._halves[:] = bytes(BYTES)

    @contextmanager
    def operation(self) -> Iterator[None]:
        """One operation; it is left when it is over or, on a GPU, queued."""
        self._add_half()
        yield
        self._add_half()

    def _add_half(self) -> None:
        self._halves[:] = (int.from_bytes(self._halves[:], "little") + 1).to_bytes(BYTES, "little")


class ProgressFile:
    """The worker's side. A context manager. The kernel frees it with the worker's process."""

    def __init__(self) -> None:
        self._fd = os.memfd_create("rigproof-progress")
        os.truncate(self._fd, BYTES)

    @property
    def path(self) -> str:
        """What its process is told."""
        return f"/proc/{os.getpid()}/fd/{self._fd}"

    def halves(self) -> int:
        """How far the process came in its last step."""
        return int.from_bytes(os.pread(self._fd, BYTES, 0), "little")

    def __enter__(self) -> "ProgressFile":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)
