"""Two processes where one takes long: a child does a part of the work, on the same data."""

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
LARGE = 500_000  # records; what has fewer is done sooner than a second process has begun


def two_are_better(records: int) -> bool:
    """Whether a second process pays: enough to do, a CPU for it, and a system that forks."""
    return records >= LARGE and hasattr(os, "fork") and len(os.sched_getaffinity(0)) > 1


def side_by_side(here: Callable[[], Here], there: Callable[[], There]) -> tuple[Here, There]:
    """What both give; `there` runs in a child. Where that one dies, its part is done here too."""
    # No `host.child.Child`: forked, it has the records, which would take longer to send than the work takes.
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_send, args=(sender, there), daemon=True)
    with warnings.catch_warnings():
        # Arrow's and numpy's threads wait for work meanwhile, and their pools outlast a fork.
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
        child.kill()  # it holds nothing; SIGTERM may be handled by whoever forked it
        child.join()


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Records and verdicts hold no cycles; looking for some in millions of them takes longer than judging."""
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
