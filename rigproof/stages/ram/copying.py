"""How fast memory is copied by all threads together, and whether the copies are right.

Each thread copies a part of its own to and fro, so that each copy is made of the one before: a word that one
of them got wrong is wrong in all that follow, and shows at the end, when all words are compared with what was
written first. Before each round a new stamp is written into every page; after it, outside the timed part,
every page of the last copy must have the stamp, which an odd number of copies has carried to the other half.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Barrier

import numpy as np

from rigproof.devices.context import WorkerContext
from rigproof.host.proc import PAGE_BYTES
from rigproof.stages.ram.patterns import Pattern, Wrong
from rigproof.stages.ram.room import MIB, WORD_BYTES, Block, Words
from rigproof.stages.ram.threads import PinnedThreads

PAGE_WORDS = PAGE_BYTES // WORD_BYTES
START_S = 30.0  # for all threads to come to the start of a round
SOURCE = Pattern("random", 1)
MOST_LOCATED = 4  # of each thread


@dataclass(frozen=True, slots=True)
class CopyRound:
    """A round of copies by all threads; `gb` counts bytes read and written."""

    end_s: float  # run time
    seconds: float
    gb: float
    verified: bool


class Copies:
    """`mib` of memory that is copied, divided among the threads. MemoryError if the kernel refuses it."""

    def __init__(self, threads: PinnedThreads, mib: float, context: WorkerContext) -> None:
        self._threads = threads
        self._context = context
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
        self._latest: Sequence[Block] = self._blocks[::2]  # what the next copy is made of
        self._others: Sequence[Block] = self._blocks[1::2]
        self._unstamped: list[Words] = [np.empty(0, np.uint64)] * len(threads)
        threads.each(self._fill, meanwhile=context.alive)

    @property
    def mib(self) -> float:
        """What a pass copies."""
        return sum(block.mib for block in self._latest)

    def round(self, length_s: float) -> CopyRound:
        """Copy for about `length_s`; the first round tells how often that is."""
        self._stamp += 1
        self._threads.each(self._mark, meanwhile=self._context.alive)
        times = self._threads.each(self._copy, meanwhile=self._context.alive)
        begun_s, end_s = min(begun for begun, _ in times), max(end for _, end in times)
        self._latest, self._others = self._others, self._latest  # an odd number of copies
        right = self._threads.each(self._is_marked, meanwhile=self._context.alive)
        gb = 2 * self._repeats * self.mib * MIB / 1e9
        done = CopyRound(end_s, end_s - begun_s, gb, all(right))
        self._repeats = max(1, round(self._repeats * length_s / max(done.seconds, 1e-6))) | 1
        return done

    def compare(self) -> tuple[int, list[Wrong]]:
        """How many words are not what was written first, and some of them."""
        found = self._threads.each(self._compare, meanwhile=self._context.alive)
        return sum(number for number, _ in found), [wrong for _, some in found for wrong in some]

    def release(self) -> None:
        """Return the memory."""
        for block in self._blocks:
            block.release()
        self._blocks.clear()

    def _fill(self, number: int) -> None:
        words = self._latest[number].words
        SOURCE.fill(words, 0)
        self._unstamped[number] = words[::PAGE_WORDS].copy()
        self._others[number].words.fill(0)

    def _mark(self, number: int) -> None:
        self._latest[number].words[::PAGE_WORDS] = self._stamp

    def _copy(self, number: int) -> tuple[float, float]:
        latest, other = self._latest[number].words, self._others[number].words
        self._start.wait(START_S)
        begun_s = self._context.now_s()
        for _ in range(self._repeats):
            np.copyto(other, latest)
            latest, other = other, latest
        return begun_s, self._context.now_s()

    def _is_marked(self, number: int) -> bool:
        return bool((self._latest[number].words[::PAGE_WORDS] == self._stamp).all())

    def _compare(self, number: int) -> tuple[int, list[Wrong]]:
        words = self._latest[number].words
        words[::PAGE_WORDS] = self._unstamped[number]  # each round has looked at its stamps
        return SOURCE.verify(words, 0, MOST_LOCATED)
