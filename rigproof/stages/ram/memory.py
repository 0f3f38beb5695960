"""How much of the host's memory may be taken, and threads that use it from where they first touched it."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from rigproof.host import cgroup, proc

Words = npt.NDArray[np.uint64]
Made = TypeVar("Made")

MIB = 2**20
WORD_BYTES = 8
LOOK_S = 0.1


class Room:
    """The memory that is free beside the reserve: of the host, or of the cgroup if its limit is lower.

    `reserve_mib` is the larger of the given one and of `reserve_share` of what may be used.
    """

    def __init__(
        self, reserve_mib: float, reserve_share: float, usable: Callable[[], proc.Memory] | None = None
    ) -> None:
        limit = cgroup.memory_limit()
        self._usable = usable or (lambda: cgroup.usable_memory(limit))
        found = self._usable()
        self.total_mib = found.total_mib
        self.available_mib = found.available_mib  # at first
        self.reserve_mib = max(reserve_mib, reserve_share * found.total_mib)

    def free_mib(self) -> float:
        """MiB that may still be taken; negative if others have taken some of the reserve."""
        return self._usable().available_mib - self.reserve_mib

    def pressed(self) -> bool:
        """Whether so much of the reserve is gone that memory must be given back at once."""
        return self.free_mib() < -self.reserve_mib / 2


def taken(mib: float) -> Words:
    """About as much memory, in huge pages if the kernel has some. MemoryError if it refuses."""
    return np.empty(max(1, int(mib) // 2) * 2 * MIB // WORD_BYTES, np.uint64)


class PinnedThreads:
    """As many threads as asked for, each on a CPU of its own of those that this process may use."""

    def __init__(self, number: int) -> None:
        cpus = sorted(os.sched_getaffinity(0))
        self._cpus = [cpus[place * len(cpus) // number] for place in range(number)]
        self._pool = ThreadPoolExecutor(number, thread_name_prefix="rigproof-ram")

    def __len__(self) -> int:
        return len(self._cpus)

    def each(self, work: Callable[[int], Made], *, meanwhile: Callable[[], None]) -> list[Made]:
        """Call `work` with the number of every thread, in it; `meanwhile` is called here while they work."""
        tasks = [self._pool.submit(self._pinned, work, number) for number in range(len(self))]
        while wait(tasks, LOOK_S).not_done:
            meanwhile()
        return [task.result() for task in tasks]

    def _pinned(self, work: Callable[[int], Made], number: int) -> Made:
        with suppress(OSError):  # the CPU went offline, or is no longer allowed
            os.sched_setaffinity(0, {self._cpus[number]})
        return work(number)
