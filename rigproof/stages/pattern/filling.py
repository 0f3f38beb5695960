"""Takes the memory under test, chunk by chunk, and less of it if it does not suffice."""

import gc
from typing import TYPE_CHECKING

from rigproof.devices.device import Device
from rigproof.devices.out_of_memory import failed_allocation
from rigproof.devices.reporting import Reporter
from rigproof.devices.vram_policy import VramPolicy
from rigproof.records.verdict import count_of
from rigproof.stages.pattern.passes import Chunk, Content
from rigproof.stages.pattern.stage import WORD_BYTES

if TYPE_CHECKING:  # at run time it imports the workload
    from rigproof.stages.pattern.stage import PatternSpec

MIB = 2**20
CHUNK_WORDS = 2**27  # 1 GiB: a kernel for each takes a fraction of a millisecond on any card
ALIGNED_WORDS = 2**12  # each chunk is a multiple: whole blocks of any kernel, and 32 KiB


class TestedMemory:
    """The memory under test: rows of 64-bit words, numbered through from 0.

    `free_mib`: what was free on the device before; `available_mib`: what of it may be used, by the spec and
    the policy's cap; `target_mib`: what is to be filled.
    """

    __test__ = False  # no class of tests, whatever pytest makes of its name

    def __init__(self, spec: "PatternSpec", device: Device, reporter: Reporter, policy: VramPolicy) -> None:
        self._spec = spec
        self._device = device
        self._reporter = reporter
        self._policy = policy
        self.chunks: list[Chunk] = []
        device.empty_cache()
        state = device.memory()
        self.free_mib, self.total_mib = state.device_free_mib, state.device_total_mib
        known = (self.free_mib, spec.memory.cap_mib, spec.most_mib)
        self.available_mib = min(one for one in known if one is not None)
        left_mib = self.available_mib if self.free_mib is None else self.free_mib - spec.reserve_mib
        self.target_mib = min(
            spec.free_share * self.available_mib, max(left_mib, spec.least_share * self.available_mib)
        )

    @property
    def words(self) -> int:
        """The number of words."""
        return sum(int(chunk.words.numel()) for chunk in self.chunks)

    @property
    def mib(self) -> float:
        """The memory that is held."""
        return self.words * WORD_BYTES / MIB

    def fill(self) -> None:
        """Take the target, or less after a failure; reports what was taken.

        Raises MemoryError if nothing smaller is left to try, or the policy allows no smaller attempt.
        """
        while failure := self._grow():
            self._back_off(failure)
        if not self.chunks:
            raise MemoryError(f"no room for patterns: {self.available_mib:.2f} MiB are free")
        self._reporter.event(
            "allocation",
            f"{self.mib:.0f} of {self.available_mib:.0f} MiB in {count_of(len(self.chunks), 'chunks')}",
            {
                "target_mib": self.target_mib,
                "allocated_mib": self.mib,
                "available_mib": self.available_mib,
                "free_mib": self.free_mib,
                "total_mib": self.total_mib,
                "chunks": len(self.chunks),
            },
        )

    def place(self, number: int) -> tuple[int, int]:
        """The chunk of a word, and its place there."""
        chunk = next(
            place for place in range(len(self.chunks) - 1, -1, -1) if self.chunks[place].first <= number
        )
        return chunk, number - self.chunks[chunk].first

    def read(self, number: int) -> int:
        """A word as it is read now."""
        chunk, place = self.place(number)
        return int(self.chunks[chunk].words[place])

    def put(self, number: int, word: int) -> None:
        """Write a word."""
        chunk, place = self.place(number)
        self.chunks[chunk].words[place] = word

    def mend(self, number: int, content: Content) -> None:
        """Write the word that is to be there."""
        self.put(number, content.word(number))

    def address(self, number: int) -> int:
        """The device's virtual address of a word."""
        chunk, place = self.place(number)
        return int(self.chunks[chunk].words.data_ptr()) + place * WORD_BYTES

    def evict(self) -> None:
        """Read the first two chunks, so that the next read of a word comes from memory, not from a cache."""
        for chunk in reversed(self.chunks[:2]):
            chunk.words.sum()

    def release(self) -> None:
        """Free everything."""
        self.chunks.clear()
        self._device.empty_cache()

    def _grow(self) -> str:
        """Take memory step by step; returns the message if it does not suffice."""
        for goal_mib in self._policy.steps(self.target_mib, self.mib):
            while (wanted := self._next_chunk(goal_mib)) > 0:
                failure = failed_allocation(self._device, lambda: self._add(wanted))
                if failure:
                    return failure
        return ""

    def _next_chunk(self, goal_mib: float) -> int:
        """Words of the next chunk on the way to a goal; 0 if it is reached."""
        left = int(goal_mib * MIB / WORD_BYTES) - self.words
        return min(CHUNK_WORDS, left // ALIGNED_WORDS * ALIGNED_WORDS)

    def _add(self, count: int) -> None:
        self.chunks.append(Chunk(self._device.words(count), self.words))

    def _back_off(self, failure: str) -> None:
        """Lower the target, and free what exceeds it. Raises MemoryError if that is not possible."""
        plan, before_mib = self._spec.memory, self.target_mib
        now_mib = max(min(plan.last_resort_mib, before_mib), before_mib * plan.retry_share)
        possible = self._policy.recovers and now_mib < before_mib
        if possible:
            self.target_mib = now_mib
            while self.chunks and self.mib > now_mib:
                self.chunks.pop()
        else:
            self.release()
        requested_mib = min(CHUNK_WORDS * WORD_BYTES / MIB, before_mib)
        self._policy.failed(failure, requested_mib, recovered=possible)
        if not possible:
            raise MemoryError(f"no room for {before_mib:.0f} MiB of patterns: {failure}")
        gc.collect()
        why = f"less after failure {self._policy.failures}"
        self._policy.decided("target", before_mib, now_mib, "MiB", why)
