"""The free memory of a host, threads that use it from where they first touched it, and patterns in it.

What is written is read back:

- address: each word is its own place in the memory under test, so that a wrong address line shows;
- random: random words, other ones in each tile, so that neighbours influence each other in many ways;
- complement: the same with all bits inverted, so that each bit was 0 and 1.

The first pattern is written while the memory is taken, and takes a sixth of the time: two passes for each of
three patterns take no longer than that each, since touching memory for the first time is the slowest of them.
However slow that is, as much is taken as counts as a measurement.
Where time is left, patterns with other words follow. If memory becomes short, because another program takes
some, the latest blocks are returned.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from rigproof.devices.reporting import Reporter
from rigproof.host import cgroup, proc
from rigproof.host.ram import physical_address
from rigproof.records.measurements import GB
from rigproof.stages.ram.stage import FILL, PATTERNS, VERIFY

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
    """A number of threads, each pinned to a CPU of its own among those that this process may use."""

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


TILE_WORDS = 2**15  # 256 KiB: a core's cache holds it, so that a pass reads or writes memory once
GOLDEN, MASK = 0x9E3779B97F4A7C15, 2**64 - 1  # 2^64 / golden ratio, as in splitmix64: all tiles differ
BLOCK_MIB, SMALLEST_MIB = 128.0, 8.0  # of a thread, in each step
TAKING_SHARE = 1 / 6
MOST_LOCATED = 16  # wrong words of the whole test
TAKEN = "another program took memory meanwhile"
REFUSED = "the kernel refused more memory"


class Wrong(NamedTuple):
    """A word that is not what was written. `place`: its number among all words under test."""

    place: int
    expected: int
    read: int

    def entry(self, content: str, *, hard: bool, physical: int | None) -> dict[str, Any]:
        """The wrong word as events have it. `hard`: it was wrong again when it was read once more."""
        return {
            "offset": self.place * WORD_BYTES,
            "expected": f"{self.expected:016x}",
            "read": f"{self.read:016x}",
            "bits": [bit for bit in range(64) if (self.expected ^ self.read) >> bit & 1],
            "content": content,
            "hard": hard,
            "physical": physical,
        }


class Pattern:
    """What every word should be, by its number among all words under test; `seed` gives other random words.

    Memory is filled and verified from a word on whose number is a multiple of TILE_WORDS.
    """

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        random = np.random.Generator(np.random.SFC64(seed)).integers(0, 2**64, TILE_WORDS, dtype=np.uint64)
        tiles = {"address": np.arange(TILE_WORDS, dtype=np.uint64), "random": random, "complement": ~random}
        self._tile = tiles[name]

    def fill(self, words: Words, first: int) -> None:
        """Write it to memory whose first word has that number."""
        for _, tile, expected in self._tiles(words, first):
            tile[:] = expected

    def verify(self, words: Words, first: int, most: int = MOST_LOCATED) -> tuple[int, list[Wrong]]:
        """How many words of that memory differ, and the first `most` of them."""
        count, found = 0, list[Wrong]()
        for place, tile, expected in self._tiles(words, first):
            differing = np.flatnonzero(tile != expected)
            count += len(differing)
            for at in differing[: most - len(found)].tolist():
                found.append(Wrong(place + at, int(expected[at]), int(tile[at])))
        return count, found

    def _tiles(self, words: Words, first: int) -> Iterator[tuple[int, Words, Words]]:
        """Each tile of that memory: the number of its first word, the tile, and what it should be."""
        for start in range(0, len(words), TILE_WORDS):
            place, tile = first + start, words[start : start + TILE_WORDS]
            key = place if self.name == "address" else place // TILE_WORDS * GOLDEN & MASK
            yield place, tile, self._tile[: len(tile)] ^ np.uint64(key)


class PatternTest:
    """The test of what is free, until it is done or the task is stopped.

    `passes`: patterns that were written and verified completely. `wrong`: how many words differed. `words`:
    some of them, as events have them. `cut_short`: why it took less memory, or ended sooner.
    """

    def __init__(
        self, threads: PinnedThreads, room: Room, reporter: Reporter, *, cache_mib: float, least_mib: float
    ) -> None:
        self._threads = threads
        self._room = room
        self._reporter = reporter
        self._context = reporter.context
        self._cache_mib = cache_mib
        self._least_mib = least_mib
        self._blocks: list[list[tuple[int, Words]]] = [[] for _ in range(len(threads))]  # of each thread
        self._pressed = False
        self.tested_mib = 0.0
        self.passes = self.wrong = 0
        self.words: list[dict[str, Any]] = []
        self.cut_short = ""

    def run(self, length_s: float) -> None:
        """Test for about `length_s`; the memory is returned in any case."""
        begun_s = self._context.now_s()
        address = Pattern(PATTERNS[0], 0)
        try:
            self._take(address, begun_s + TAKING_SHARE * length_s)
            self._pass(VERIFY, address)
            seed = 1
            while not self._over:
                cycle_s = self._context.now_s()
                for name in PATTERNS[1:]:
                    pattern = Pattern(name, seed)
                    self._pass(FILL, pattern)
                    self._pass(VERIFY, pattern)
                now_s, seed = self._context.now_s(), seed + 1
                if now_s + (now_s - cycle_s) > begun_s + length_s:
                    break
        finally:
            self._blocks.clear()

    @property
    def _over(self) -> bool:
        return self._pressed or self._context.stopped() or not any(self._blocks)

    @property
    def _mib(self) -> float:
        return sum(words.nbytes for own in self._blocks for _, words in own) / MIB

    def _take(self, pattern: Pattern, until_s: float) -> None:
        """Take and fill memory, a block for each thread at a time, until it or the time is used up."""
        begun_s, first = self._context.now_s(), 0
        while not self._context.stopped() and (
            self._context.now_s() < until_s or self._mib < self._least_mib
        ):
            mib = min(BLOCK_MIB, self._room.free_mib() / len(self._threads))
            if mib < SMALLEST_MIB:
                break
            try:
                step = [taken(mib) for _ in self._blocks]
            except MemoryError:
                self.cut_short = REFUSED
                break
            for own, words in zip(self._blocks, step, strict=True):
                own.append((first, words))
                first += len(words)
            self._threads.each(lambda thread: self._fill(pattern, thread, since=-1), meanwhile=self._look)
            if self._room.free_mib() < 0:  # somebody else took memory in this step
                for own in self._blocks:
                    own.pop()
                self.cut_short = TAKEN
                break
        if any(self._blocks):
            self._tell(FILL, pattern, begun_s)

    def _pass(self, operation: str, pattern: Pattern) -> None:
        """Write a pattern to all of the memory, or verify it; what was not completed does not count."""
        if self._over:
            return
        begun_s = self._context.now_s()
        work = self._fill if operation == FILL else self._verify
        wrong = sum(self._threads.each(lambda thread: work(pattern, thread), meanwhile=self._look))
        self.wrong += wrong
        if not self._over:
            if operation == VERIFY:
                self.tested_mib, self.passes = self._mib, self.passes + 1
            self._tell(operation, pattern, begun_s, verified=not wrong)

    def _fill(self, pattern: Pattern, thread: int, *, since: int = 0) -> int:
        """Fill the thread's blocks from that one on. Returns 0: nothing is wrong with them yet."""
        for first, words in self._blocks[thread][since:]:
            if not self._over:
                pattern.fill(words, first)
        return 0

    def _verify(self, pattern: Pattern, thread: int) -> int:
        """How many words of the thread's blocks are wrong.

        Some of them are read once more, after other memory has displaced them from the caches.
        """
        count = 0
        for first, words in self._blocks[thread]:
            number, some = (0, []) if self._over else pattern.verify(words, first)
            count += number
            for wrong in some[: MOST_LOCATED - len(self.words)]:
                at = wrong.place - first
                self._displace()
                physical = physical_address(words.ctypes.data + at * WORD_BYTES)
                hard = int(words[at]) != wrong.expected
                self.words.append(wrong.entry(pattern.name, hard=hard, physical=physical))
        return count

    def _displace(self) -> None:
        """Read twice as much as the caches hold, as far as there is as much."""
        remaining_mib = 2 * self._cache_mib
        for _, words in chain.from_iterable(self._blocks):
            if remaining_mib <= 0:
                return
            words.max()
            remaining_mib -= words.nbytes / MIB

    def _look(self) -> None:
        self._context.alive()
        if not self._pressed and self._room.pressed():
            self._pressed, self.cut_short = True, TAKEN

    def _tell(self, operation: str, pattern: Pattern, begun_s: float, *, verified: bool = True) -> None:
        end_s = self._context.now_s()
        self._reporter.round(
            phase="measure",
            seconds=end_s - begun_s,
            work=self._mib * MIB / 1e9,
            unit=GB,
            verified=verified,
            labels={"operation": operation, "content": pattern.name, "threads": len(self._threads)},
            t_s=end_s,
        )


def report(reporter: Reporter, count: int, words: list[dict[str, Any]]) -> None:
    """An event of wrong words: how many there are, and the first of `words`."""
    reporter.event("ram_error", in_words(count, words), {"count": count, "words": words[:MOST_LOCATED]})


def in_words(count: int, words: list[dict[str, Any]]) -> str:
    """How many words were wrong, and the first of them: its place, its bits, and whether it stayed wrong."""
    number = "1 word" if count == 1 else f"{count} words"
    if not words:
        return f"{number} wrong"
    first = words[0]
    where = f"at offset {first['offset']:#x}"
    if first["physical"] is not None:
        where += f" (physical address {first['physical']:#x})"
    bits = ", ".join(map(str, first["bits"][:4])) + (", …" if len(first["bits"]) > 4 else "")
    kind = "hard" if first["hard"] else "soft: right when read again"
    return (
        f"{number} wrong, the first {where}: {first['read']} in place of {first['expected']}, "
        f"bit{'' if len(first['bits']) == 1 else 's'} {bits} ({first['content']}; {kind})"
    )
