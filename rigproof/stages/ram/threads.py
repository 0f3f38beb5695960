"""Threads of which each keeps to a CPU of its own, so that memory is used from where it was first touched."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TypeVar

Made = TypeVar("Made")


class PinnedThreads:
    """As many threads as asked for, spread over the CPUs that this process may run on."""

    def __init__(self, number: int) -> None:
        cpus = sorted(os.sched_getaffinity(0))
        chosen = [cpus[place * len(cpus) // number] for place in range(number)]
        self._pools = [
            ThreadPoolExecutor(1, thread_name_prefix="rigproof-ram", initializer=_keep_to, initargs=(cpu,))
            for cpu in chosen
        ]

    def __len__(self) -> int:
        return len(self._pools)

    def each(
        self, work: Callable[[int], Made], *, meanwhile: Callable[[], None], every_s: float = 0.1
    ) -> list[Made]:
        """Call `work` in every thread, with its number; `meanwhile` is called here while they work.

        Raises the first exception of one of them, once all have ended.
        """
        tasks: list[Future[Made]] = [pool.submit(work, number) for number, pool in enumerate(self._pools)]
        try:
            while wait(tasks, every_s, FIRST_EXCEPTION).not_done:
                meanwhile()
        finally:
            wait(tasks)
        return [task.result() for task in tasks]

    def one(self, number: int, work: Callable[[], Made]) -> Made:
        """Call `work` in one of the threads, and wait for it."""
        return self._pools[number].submit(work).result()

    def close(self) -> None:
        """End the threads."""
        for pool in self._pools:
            pool.shutdown()


def _keep_to(cpu: int) -> None:
    with suppress(OSError):  # the CPU went offline, or is no longer allowed
        os.sched_setaffinity(threading.get_native_id(), {cpu})
