"""Passes over the free memory: it is taken step by step, written with patterns, and verified.

The first pattern is written while the memory is taken, and takes a sixth of the time: two passes for each of
three patterns take no longer than that each, since touching memory for the first time is the slowest of them.
However slow that is, as much is taken as counts as a measurement.
Where time is left, patterns with other words follow. If memory becomes short, because another program takes
some, the latest blocks are returned.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from rigproof.devices.context import WorkerContext
from rigproof.host.ram import physical_address
from rigproof.stages.ram.patterns import Pattern, Wrong
from rigproof.stages.ram.room import MIB, WORD_BYTES, Block, Room
from rigproof.stages.ram.stage import FILL, PATTERNS, VERIFY
from rigproof.stages.ram.threads import PinnedThreads

BLOCK_MIB, SMALLEST_MIB = 128.0, 8.0  # of a thread, in each step
TAKING_SHARE = 1 / 6
MOST_LOCATED = 16  # wrong words of the whole test
TAKEN = "another program took memory meanwhile"
REFUSED = "the kernel refused more memory"


@dataclass(slots=True)
class Taken:
    """A block of one thread; `place` is the number of its first word among all words under test."""

    thread: int
    place: int
    block: Block


@dataclass(frozen=True, slots=True)
class Located:
    """A wrong word: where it is, and whether it was wrong again when memory was read once more."""

    wrong: Wrong
    content: str
    hard: bool
    physical: int | None


@dataclass(slots=True)
class Report:
    """What the test did. `passes`: patterns that were written and verified completely."""

    tested_mib: float = 0.0
    passes: int = 0
    wrong: int = 0
    located: list[Located] = field(default_factory=list)
    cut_short: str = ""


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass over all memory under test. `verified`: whether it found no wrong word."""

    operation: str
    content: str
    seconds: float
    end_s: float  # run time
    gb: float
    verified: bool


class MemoryTest:
    """The whole test, until it is done or the task is stopped."""

    def __init__(
        self,
        threads: PinnedThreads,
        room: Room,
        cache_mib: float,
        least_mib: float,
        on_pass: Callable[[Pass], None],
        *,
        context: WorkerContext,
    ) -> None:
        self._threads = threads
        self._room = room
        self._cache_mib = cache_mib
        self._least_mib = least_mib
        self._on_pass = on_pass
        self._context = context
        self._blocks: list[Taken] = []
        self._pressed = False
        self.report = Report()

    def run(self, length_s: float) -> Report:
        """Test for about `length_s`; the memory is returned in any case."""
        begun_s = self._context.now_s()
        try:
            self._take(Pattern(PATTERNS[0], 0), begun_s + TAKING_SHARE * length_s)
            self._verify(Pattern(PATTERNS[0], 0))
            number = 1
            while not self._over:
                cycle_s = self._context.now_s()
                for name in PATTERNS[1:]:
                    content = Pattern(name, number)
                    self._fill(content)
                    self._verify(content)
                now_s, number = self._context.now_s(), number + 1
                if now_s + (now_s - cycle_s) > begun_s + length_s:
                    break
        finally:
            self._release(self._blocks)
        return self.report

    @property
    def _over(self) -> bool:
        return self._pressed or self._context.stopped() or not self._blocks

    @property
    def _mib(self) -> float:
        return sum(taken.block.mib for taken in self._blocks)

    def _take(self, content: Pattern, until_s: float) -> None:
        """Take and fill memory, block by block in each thread, until it or the time is used up."""
        begun_s, place = self._context.now_s(), 0
        while not self._context.stopped() and (
            self._context.now_s() < until_s or self._mib < self._least_mib
        ):
            mib = min(BLOCK_MIB, self._room.free_mib() / len(self._threads))
            if mib < SMALLEST_MIB:
                break
            step: list[Taken] = []
            try:
                for thread in range(len(self._threads)):
                    step.append(Taken(thread, place, Block(mib)))
                    place += len(step[-1].block.words)
            except MemoryError:
                self._release(step)
                self.report.cut_short = REFUSED
                break
            self._blocks += step
            self._threads.each(self._filling(step, content), meanwhile=self._look)
            if self._room.free_mib() < 0:  # somebody else took memory in this step
                self._blocks = self._blocks[: -len(step)]
                self._release(step)
                self.report.cut_short = TAKEN
                break
        if self._blocks:
            self._tell(FILL, content, begun_s, right=True)

    def _fill(self, content: Pattern) -> None:
        begun_s = self._context.now_s()
        if not self._over:
            self._threads.each(self._filling(self._blocks, content), meanwhile=self._look)
            self._tell(FILL, content, begun_s, right=True)

    def _filling(self, blocks: list[Taken], content: Pattern) -> Callable[[int], None]:
        def fill(number: int) -> None:
            for taken in blocks:
                if taken.thread == number and not self._over:
                    content.fill(taken.block.words, taken.place)

        return fill

    def _verify(self, content: Pattern) -> None:
        if self._over:
            return
        begun_s = self._context.now_s()

        def verify(number: int) -> list[tuple[Taken, int, list[Wrong]]]:
            found = []
            for taken in self._blocks:
                if taken.thread == number and not self._over:
                    count, some = content.verify(taken.block.words, taken.place, MOST_LOCATED)
                    if count:
                        found.append((taken, count, some))
            return found

        found = [one for own in self._threads.each(verify, meanwhile=self._look) for one in own]
        end_s = self._context.now_s()
        self.report.wrong += sum(count for _, count, _ in found)
        if not self._over:
            self.report.tested_mib = max(self.report.tested_mib, self._mib)
            self.report.passes += 1
            self._tell(VERIFY, content, begun_s, right=not found, end_s=end_s)
        for taken, _, some in found:
            for wrong in some[: MOST_LOCATED - len(self.report.located)]:
                self.report.located.append(self._located(taken, wrong, content))

    def _located(self, taken: Taken, wrong: Wrong, content: Pattern) -> Located:
        """Read it again, by the same thread, once other memory has displaced it from the caches."""
        index = wrong.place - taken.place

        def read() -> int:
            self._displace()
            return int(taken.block.words[index])

        again = self._threads.one(taken.thread, read)
        virtual = taken.block.words.ctypes.data + index * WORD_BYTES
        return Located(wrong, content.name, again != wrong.expected, physical_address(virtual))

    def _displace(self) -> None:
        """Read twice as much as the caches hold, as far as there is as much."""
        remaining_mib = 2 * self._cache_mib
        for taken in self._blocks:
            if remaining_mib <= 0:
                return
            taken.block.words.max()
            remaining_mib -= taken.block.mib

    def _look(self) -> None:
        self._context.alive()
        if not self._pressed and self._room.pressed():
            self._pressed, self.report.cut_short = True, TAKEN

    def _tell(
        self, operation: str, content: Pattern, begun_s: float, *, right: bool, end_s: float | None = None
    ) -> None:
        end_s = self._context.now_s() if end_s is None else end_s
        gb = self._mib * MIB / 1e9
        self._on_pass(Pass(operation, content.name, end_s - begun_s, end_s, gb, right))

    @staticmethod
    def _release(blocks: list[Taken]) -> None:
        for taken in blocks:
            taken.block.release()
        blocks.clear()
