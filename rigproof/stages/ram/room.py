"""How much of the host's memory may be taken, and the blocks that are taken of it."""

import mmap
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from rigproof.host import cgroup, proc

Words = npt.NDArray[np.uint64]

MIB = 2**20
WORD_BYTES = 8
HUGE_BYTES = 2 * MIB  # of a huge page: blocks are multiples of it


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


class Block:
    """Anonymous memory of this process, in huge pages if the kernel has some. `words`: it as numbers.

    Raises MemoryError if the kernel refuses it.
    """

    def __init__(self, mib: float) -> None:
        size = max(HUGE_BYTES, int(mib * MIB) // HUGE_BYTES * HUGE_BYTES)
        try:
            self._map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:  # ENOMEM; also a limit of this process
            raise MemoryError(str(error)) from None
        self._map.madvise(mmap.MADV_HUGEPAGE)
        self.words: Words = np.frombuffer(self._map, np.uint64)

    @property
    def mib(self) -> float:
        """Its size."""
        return self.words.nbytes / MIB

    def release(self) -> None:
        """Return it to the kernel; nothing may use `words` from then on."""
        self.words = np.empty(0, np.uint64)
        with suppress(BufferError):  # an array is still in use: the memory goes with it
            self._map.close()
