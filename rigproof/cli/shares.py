"""Splits long work over several processes: children do shares of it, on the same data."""

import contextlib
import mmap
import multiprocessing
import os
import pickle
import tempfile
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from multiprocessing.connection import Connection
from typing import IO, Generic, TypeVar

Made = TypeVar("Made")
LARGE = 500_000  # records; fewer are done before a second process has started
ALIGNMENT = 64  # of arrays in memory, bytes, as Arrow's
PROCESSES_MAX = 8  # with more, the work before and after the shares takes longer than the shares


def processes_for(records: int) -> int:
    """How many processes are worth starting for so many records; 1 where the system cannot fork.

    One, and one more for every LARGE records, but no more than this process has CPUs, nor PROCESSES_MAX.
    """
    if records < LARGE or not hasattr(os, "fork"):
        return 1
    return min(1 + records // LARGE, len(os.sched_getaffinity(0)), PROCESSES_MAX)


def side_by_side(shares: Sequence[Callable[[], Made]]) -> list[Made]:
    """The results of the shares, in their order. All but the first run in child processes.

    If a child dies, or its share raises an error, its share is done in this process.
    """
    first, *others = shares
    children: list[_Child[Made]] = []
    try:
        children.extend(map(_Child, others))
        made = [first()]
        for share, child in zip(others, children, strict=True):
            try:
                made.append(child.result())
            except (EOFError, OSError):
                made.append(share())
        return made
    finally:
        for child in children:
            child.end()


class _Child(Generic[Made]):
    """A forked process that does a share, and its result.

    No `host.child.Child`: forked, it has the records, which would take longer to send than the work takes.
    Arrays come back through a file in memory that both processes map: a pipe would copy them twice.
    """

    def __init__(self, share: Callable[[], Made]) -> None:
        context = multiprocessing.get_context("fork")
        self._receiver, sender = context.Pipe(duplex=False)
        self._arrays = _file_in_memory()
        self._process = context.Process(target=_send, args=(sender, self._arrays, share), daemon=True)
        with warnings.catch_warnings():
            # Arrow's and numpy's threads are idle at that time, and their pools survive a fork.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        sender.close()

    def result(self) -> Made:
        """Wait for it. Raises EOFError or OSError if the child did not send all of it."""
        ends: list[int] = self._receiver.recv()
        content = self._receiver.recv_bytes()
        whole = memoryview(mmap.mmap(self._arrays.fileno(), ends[-1])) if any(ends) else memoryview(b"")
        arrays = [whole[_aligned(begin) : end] for begin, end in pairwise(ends)]
        made: Made = pickle.loads(content, buffers=arrays)  # noqa: S301 - from this program's own child
        return made

    def end(self) -> None:
        """End it, whatever it does."""
        self._receiver.close()
        self._process.kill()  # it holds nothing; SIGTERM may have a handler inherited from the parent
        self._process.join()
        self._arrays.close()


def _file_in_memory() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("rigproof"), "r+b")
    return tempfile.TemporaryFile()


def _send(sender: Connection, arrays: IO[bytes], share: Callable[[], object]) -> None:
    """In the child: do the share and send its result. If that fails, nothing is sent: the parent does it."""
    with contextlib.suppress(Exception):
        buffers: list[pickle.PickleBuffer] = []
        content = pickle.dumps(share(), protocol=5, buffer_callback=buffers.append)
        ends = [0]
        for buffer in buffers:
            arrays.seek(_aligned(ends[-1]))
            arrays.write(buffer.raw())
            ends.append(arrays.tell())
        arrays.flush()
        sender.send(ends)
        sender.send_bytes(content)
    sender.close()


def _aligned(place: int) -> int:
    return -(-place // ALIGNMENT) * ALIGNMENT
