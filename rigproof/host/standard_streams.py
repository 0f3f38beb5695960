"""Standard output and standard error that outlive their reader.

A pipe whose reader has gone (`| head -1`) and a full disk raise at any write, and Python's own exit status
for them is 1, which would read as REJECTED. What is printed is the least of a run: it goes on, its files are
written, and its exit status holds.
"""

import errno
import io
import os
import sys
from typing import TextIO

_said: set[str] = set()  # streams whose failure standard error has told
_made: dict[int, TextIO] = {}  # one for each descriptor: two would write in whatever order they are flushed


class _Lasting(io.FileIO):
    """A raw stream whose writes to its descriptor are dropped once one has failed."""

    def __init__(self, descriptor: int, name: str, *, own: bool) -> None:
        super().__init__(descriptor, "wb", closefd=own)
        self._name = name

    def write(self, data: object) -> int | None:  # type: ignore[override]
        """Write as FileIO does, but do not raise if nobody can read it."""
        try:
            return super().write(data)  # type: ignore[arg-type]
        except BlockingIOError:
            raise
        except OSError as error:
            _let_go(self.fileno(), self._name, error)
            return memoryview(data).nbytes  # type: ignore[arg-type]


def lasting(stream: TextIO, name: str, descriptor: int, *, own: bool = False) -> TextIO:
    """A stream like `stream`, on `descriptor`, which never raises for want of a reader or of space.

    The first failure is told on standard error, but not if it is only that the reader has gone. `own`:
    closing the stream closes the descriptor.
    """
    return io.TextIOWrapper(
        io.BufferedWriter(_Lasting(descriptor, name, own=own)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=getattr(stream, "line_buffering", False),
        write_through=getattr(stream, "write_through", False),
    )


def outlive_readers() -> None:
    """Replace `sys.stdout` and `sys.stderr` by streams that do not raise; others' streams stay.

    To be called again where somebody may have put back what was there before.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:  # closed: the next file that is opened would be standard output
            os.open(os.devnull, os.O_RDWR)
    for descriptor, name, shown in ((1, "stdout", "standard output"), (2, "stderr", "standard error")):
        stream = getattr(sys, name)
        if stream is None:
            stream = open(descriptor, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - for good
        if type(stream) is not io.TextIOWrapper or isinstance(getattr(stream.buffer, "raw", None), _Lasting):
            continue
        if stream.fileno() != descriptor:
            continue
        try:
            stream.flush()
        except OSError as error:
            _let_go(descriptor, shown, error)
            stream.flush()
        if descriptor not in _made:
            _made[descriptor] = lasting(stream, shown, descriptor)
        setattr(sys, name, _made[descriptor])


def _let_go(descriptor: int, name: str, error: OSError) -> None:
    """Drop whatever else is written there, and say so once on standard error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
    if name in _said or descriptor == 2 or error.errno == errno.EPIPE:
        return
    _said.add(name)
    sentence = f"rigproof: {name} cannot be written: {error.strerror or error}; the exit status holds\n"
    try:
        os.write(2, sentence.encode())
    except OSError:
        return  # nobody is left to be told
