"""Splits long work over two processes: a child does a part of it, on the same data."""

import contextlib
import gc
import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import TypeVar

Here = TypeVar("Here")
There = TypeVar("There")
LARGE = 500_000  # records; fewer are done before a second process has started


def two_are_better(records: int) -> bool:
    """Whether a second process pays: enough to do, a CPU for it, and a system that forks."""
    return records >= LARGE and hasattr(os, "fork") and len(os.sched_getaffinity(0)) > 1


def side_by_side(here: Callable[[], Here], there: Callable[[], There]) -> tuple[Here, There]:
    """The results of both; `there` runs in a child. If the child dies, its part is also done here."""
    # No `host.child.Child`: forked, it has the records, which would take longer to send than the work takes.
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_send, args=(sender, there), daemon=True)
    with warnings.catch_warnings():
        # Arrow's and numpy's threads are idle at that time, and their pools survive a fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()
    sender.close()
    try:
        mine = here()
        try:
            return mine, receiver.recv()
        except EOFError:
            return mine, there()
    finally:
        receiver.close()
        child.kill()  # it holds nothing; SIGTERM may have a handler inherited from the parent
        child.join()


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Pause garbage collection: records and verdicts have no cycles, and the search would outlast judging."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _send(sender: Connection, make: Callable[[], object]) -> None:
    sender.send(make())
    sender.close()
