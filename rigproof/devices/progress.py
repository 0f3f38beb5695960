"""How far a rank's process came in the operations of its step: a number in a file that its worker reads.

A message for each operation would cost more than a small one takes; and a process that hangs sends none.
"""

import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILE = "RIGPROOF_PROGRESS_FILE"  # the variable with which a process is told of it
BYTES = 8


class Progress:
    """The process's side. Halves of operations: an odd number is inside of one that blocks its host."""

    def __init__(self) -> None:
        self._halves: mmap.mmap | bytearray = bytearray(BYTES)  # that nobody reads
        if path := os.environ.get(FILE):
            with Path(path).open("r+b") as file:
                self._halves = mmap.mmap(file.fileno(), BYTES)

    def begin_step(self) -> None:
        """No operation of the next step has begun."""
        self._halves[:] = bytes(BYTES)

    @contextmanager
    def operation(self, *, blocks: bool) -> Iterator[None]:
        """One operation. It `blocks` its host until it is over, or is only queued."""
        self._add(1 if blocks else 0)
        yield
        self._add(1 if blocks else 2)

    def _add(self, halves: int) -> None:
        self._halves[:] = (int.from_bytes(self._halves[:], "little") + halves).to_bytes(BYTES, "little")


class ProgressFile:
    """The worker's side. A context manager."""

    def __init__(self) -> None:
        self._file = tempfile.NamedTemporaryFile(prefix="rigproof-progress-")  # noqa: SIM115 - see __exit__
        os.truncate(self._file.fileno(), BYTES)

    @property
    def path(self) -> str:
        """What its process is told."""
        return self._file.name

    def halves(self) -> int:
        """How far the process came in its last step."""
        return int.from_bytes(os.pread(self._file.fileno(), BYTES, 0), "little")

    def __enter__(self) -> "ProgressFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
