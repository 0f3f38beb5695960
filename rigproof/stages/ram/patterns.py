"""Patterns that are written to memory and read back, tile by tile, and what is wrong with it.

A tile is small enough for a core's cache, so that memory is passed over once to write it, and once to
verify it:

- address: each word is its own place in the memory under test, so that a wrong address line shows;
- random: random words, other ones in each tile, so that neighbours influence each other in many ways;
- complement: the same with all bits inverted, so that each bit was 0 and 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rigproof.stages.ram.room import WORD_BYTES, Words

TILE_WORDS = 2**15  # 256 KiB
GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, as in splitmix64: tiles that follow each other differ
MASK = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Wrong:
    """A word that is not what was written. `place`: its number among all words under test."""

    place: int
    expected: int
    read: int

    @property
    def offset(self) -> int:
        """Bytes from the beginning of the memory under test."""
        return self.place * WORD_BYTES

    @property
    def bits(self) -> tuple[int, ...]:
        """The numbers of the bits that differ."""
        return tuple(bit for bit in range(64) if (self.expected ^ self.read) >> bit & 1)


class Pattern:
    """One pattern; `seed` gives other random words."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self._seed = seed
        if name == "address":
            self._tile = np.arange(TILE_WORDS, dtype=np.uint64)
        else:
            generator = np.random.Generator(np.random.SFC64(seed))
            self._tile = generator.integers(0, 2**64, TILE_WORDS, dtype=np.uint64)
            if name == "complement":
                self._tile = ~self._tile

    def fill(self, words: Words, place: int) -> None:
        """Write it to memory whose first word is number `place` of the memory under test."""
        for tile, first in _tiles(words, place):
            self._expected(first, tile)

    def verify(self, words: Words, place: int, most: int) -> tuple[int, list[Wrong]]:
        """How many words of that memory differ, and the first `most` of them."""
        number, found = 0, list[Wrong]()
        expected, differs = np.empty(TILE_WORDS, np.uint64), np.empty(TILE_WORDS, np.bool_)
        for tile, first in _tiles(words, place):
            size = len(tile)
            self._expected(first, expected[:size])
            np.not_equal(tile, expected[:size], out=differs[:size])
            if differs[:size].any():
                places = np.flatnonzero(differs[:size]).tolist()
                number += len(places)
                found += [
                    Wrong(first + one, int(expected[one]), int(tile[one]))
                    for one in places[: most - len(found)]
                ]
        return number, found

    def _expected(self, first: int, out: Words) -> None:
        """What a tile holds whose first word is number `first`."""
        if self.name == "address":
            np.add(self._tile[: len(out)], np.uint64(first), out=out)
        else:
            key = (first // TILE_WORDS + 1) * GOLDEN + self._seed & MASK
            np.bitwise_xor(self._tile[: len(out)], np.uint64(key), out=out)


def _tiles(words: Words, place: int) -> Iterator[tuple[Words, int]]:
    for start in range(0, len(words), TILE_WORDS):
        yield words[start : start + TILE_WORDS], place + start
