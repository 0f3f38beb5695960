"""How fast memory is copied by all threads together, and whether the copies are right.

Each thread copies a part of its own. Before each round a new stamp is written into every page of the sources;
after it, outside the timed part, every page of the targets must have the stamp. At the end all words are
compared.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Barrier

import numpy as np

from rigproof.host.proc import PAGE_BYTES
from rigproof.stages.ram.patterns import Pattern, Wrong
from rigproof.stages.ram.room import MIB, WORD_BYTES, Block
from rigproof.stages.ram.threads import PinnedThreads

PAGE_WORDS = PAGE_BYTES // WORD_BYTES
START_S = 30.0  # for all threads to come to the start of a round
SOURCE = Pattern("random", 1)
MOST_LOCATED = 4  # of each thread


@dataclass(frozen=True, slots=True)
class CopyRound:
    """A round of copies by all threads; `gb` counts bytes read and written."""

    end_s: float  # monotonic
    seconds: float
    gb: float
    verified: bool


class Copies:
    """`mib` of memory that is copied, divided among the threads. MemoryError if the kernel refuses it."""

    def __init__(self, threads: PinnedThreads, mib: float, alive: Callable[[], None]) -> None:
        self._threads = threads
        self._alive = alive
        self._repeats = 1
        self._stamp = 0
        self._start = Barrier(len(threads))
        self._blocks: list[Block] = []
        try:
            for _ in range(2 * len(threads)):
                self._blocks.append(Block(mib / len(threads)))
        except MemoryError:
            self.release()
            raise
        self._sources: Sequence[Block] = self._blocks[::2]
        self._targets: Sequence[Block] = self._blocks[1::2]
        threads.each(self._fill, meanwhile=alive)

    @property
    def mib(self) -> float:
        """What a pass copies."""
        return sum(block.mib for block in self._sources)

    def round(self, length_s: float) -> CopyRound:
        """Copy for about `length_s`; the first round tells how often that is."""
        self._stamp += 1
        self._threads.each(self._mark, meanwhile=self._alive)
        times = self._threads.each(self._copy, meanwhile=self._alive)
        begun_s, end_s = min(begun for begun, _ in times), max(end for _, end in times)
        right = self._threads.each(self._is_marked, meanwhile=self._alive)
        gb = 2 * self._repeats * self.mib * MIB / 1e9
        done = CopyRound(end_s, end_s - begun_s, gb, all(right))
        self._repeats = max(1, round(self._repeats * length_s / max(done.seconds, 1e-6)))
        return done

    def compare(self) -> tuple[int, list[Wrong]]:
        """How many words of the targets are not those of their sources, and some of them."""
        found = self._threads.each(self._compare, meanwhile=self._alive)
        return sum(number for number, _ in found), [wrong for _, some in found for wrong in some]

    def release(self) -> None:
        """Return the memory."""
        for block in self._blocks:
            block.release()
        self._blocks.clear()

    def _fill(self, number: int) -> None:
        SOURCE.fill(self._sources[number].words, 0)
        self._targets[number].words.fill(0)

    def _mark(self, number: int) -> None:
        self._sources[number].words[::PAGE_WORDS] = self._stamp

    def _copy(self, number: int) -> tuple[float, float]:
        source, target = self._sources[number].words, self._targets[number].words
        self._start.wait(START_S)
        begun_s = time.monotonic()
        for _ in range(self._repeats):
            np.copyto(target, source)
        return begun_s, time.monotonic()

    def _is_marked(self, number: int) -> bool:
        return bool((self._targets[number].words[::PAGE_WORDS] == self._stamp).all())

    def _compare(self, number: int) -> tuple[int, list[Wrong]]:
        source, target = self._sources[number].words, self._targets[number].words
        count, located = 0, list[Wrong]()
        for start in range(0, len(source), 2**20):
            part = slice(start, start + 2**20)
            places = np.flatnonzero(source[part] != target[part])
            count += len(places)
            for place in (int(one) + start for one in places[: MOST_LOCATED - len(located)]):
                located.append(Wrong(place, int(source[place]), int(target[place])))
        return count, located
