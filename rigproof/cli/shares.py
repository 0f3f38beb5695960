"""Splits long work over several processes: children do shares of it, on the same data."""

import multiprocessing
import os
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import TypeVar

Made = TypeVar("Made")
LARGE = 500_000  # records; fewer are done before a second process has started
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

    If a child dies, its share is done in this process.
    """
    first, *others = shares
    children: list[tuple[ForkProcess, Connection]] = []
    try:
        children.extend(map(_begin, others))
        made = [first()]
        for share, (_, receiver) in zip(others, children, strict=True):
            try:
                made.append(receiver.recv())
            except EOFError:
                made.append(share())
        return made
    finally:
        for child, receiver in children:
            receiver.close()
            child.kill()  # it holds nothing; SIGTERM may have a handler inherited from the parent
            child.join()


def _begin(share: Callable[[], object]) -> tuple[ForkProcess, Connection]:
    # No `host.child.Child`: forked, it has the records, which would take longer to send than the work takes.
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_send, args=(sender, share), daemon=True)
    with warnings.catch_warnings():
        # Arrow's and numpy's threads are idle at that time, and their pools survive a fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()
    sender.close()
    return child, receiver


def _send(sender: Connection, make: Callable[[], object]) -> None:
    sender.send(make())
    sender.close()
