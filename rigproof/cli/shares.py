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
PROCESSES_MAX = 8  # what is done before and after the shares takes longer than they do from then on


def processes_for(records: int) -> int:
    """How many processes pay for so many records: one for each LARGE and each CPU, where the system forks."""
    if records < LARGE or not hasattr(os, "fork"):
        return 1
    return min(1 + records // LARGE, len(os.sched_getaffinity(0)), PROCESSES_MAX)


def side_by_side(shares: Sequence[Callable[[], Made]]) -> list[Made]:
    """The result of each; all but the first run in children. The share of a child that dies is done here."""
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
