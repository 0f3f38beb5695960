"""Passes over the memory under test: write a pattern, compare it, or compare it and write its complement."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from rigproof.stages.pattern import words
from rigproof.stages.pattern.stage import MEANINGS

MOST_FOUND = 64  # wrong words of a pass whose place and content are kept; all of them are counted
# What makes the words of some numbers with a seed, by the patterns' numbers.
WORDS: tuple[Callable[[Any, Any], Any], ...] = (
    *(words.address, words.modulo_20, words.random),
    *(words.walking, words.fade),
)
NUMBERS = {name: number for number, name in enumerate(MEANINGS)}  # of the patterns, as kernels know them


@dataclass(frozen=True, slots=True)
class Chunk:
    """One allocation: a row of 64-bit words; `first` is the number of its first word in the whole memory."""

    words: torch.Tensor
    first: int


@dataclass(frozen=True, slots=True)
class Content:
    """What the memory is to hold: a pattern with a seed, or (`flip` -1) its complement."""

    pattern: str
    seed: int
    flip: int = 0

    @property
    def inverted(self) -> "Content":
        """The content with every bit inverted."""
        return replace(self, flip=~self.flip)

    def words(self, numbers: torch.Tensor) -> torch.Tensor:
        """The words of these numbers."""
        seed = torch.tensor(self.seed, dtype=torch.int64, device=numbers.device)
        made: torch.Tensor = WORDS[NUMBERS[self.pattern]](numbers, seed)
        return made if not self.flip else ~made

    def word(self, number: int) -> int:
        """The word of one number, signed."""
        return int(self.words(torch.tensor([number], dtype=torch.int64)))


@dataclass(frozen=True, slots=True)
class Found:
    """A word that was not as expected, as it was read."""

    number: int
    read: int


@dataclass(frozen=True, slots=True)
class Compared:
    """A pass's result: words as expected, words that were not, and the first MOST_FOUND of those.

    Words that no kernel looked at are in neither number.
    """

    right: int
    wrong: int
    found: tuple[Found, ...]


class Passes(ABC):
    """The passes over some chunks. Work is queued on the device; `result` waits for it."""

    name: ClassVar[str]

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.chunks = chunks

    @abstractmethod
    def write(self, content: Content) -> None:
        """Queue writing it to all chunks."""

    @abstractmethod
    def prepare(self) -> None:
        """Forget the last comparison, so that one that does not run cannot look like it."""

    @abstractmethod
    def compare(self, content: Content, *, invert: bool) -> None:
        """Queue comparing every word; `invert`: each right one is then overwritten with its complement."""

    @abstractmethod
    def result(self) -> Compared:
        """What the comparison since `prepare` found."""


class TorchPasses(Passes):
    """The passes as torch's own operations, slice by slice."""

    name = "torch"
    SLICES = 256  # of the memory: operations of a slice need some ten times its size beside it
    SMALLEST, LARGEST = 2**10, 2**22  # words

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        super().__init__(chunks)
        share = max(1, sum(chunk.words.numel() for chunk in chunks) // self.SLICES)
        length = min(self.LARGEST, max(self.SMALLEST, 2 ** (share.bit_length() - 1)))
        self._numbers = torch.arange(length, dtype=torch.int64, device=chunks[0].words.device)
        self._right = self._wrong = 0
        self._found: list[Found] = []

    def write(self, content: Content) -> None:
        for part, numbers in self._slices():
            part.copy_(content.words(numbers))

    def prepare(self) -> None:
        self._right = self._wrong = 0
        self._found = []

    def compare(self, content: Content, *, invert: bool) -> None:
        for part, numbers in self._slices():
            expected = content.words(numbers)
            got = self._read(part)  # once; everything else is done with this copy
            same = got == expected
            right = int(same.sum())
            self._right += right
            if right < len(part):
                (places,) = (~same).nonzero(as_tuple=True)
                self._wrong += len(places)
                kept = places[: MOST_FOUND - len(self._found)]
                pairs: Any = zip(numbers[kept].tolist(), got[kept].tolist(), strict=True)
                self._found += [Found(number, read) for number, read in pairs]
            if invert and right == len(part):
                part.copy_(expected.bitwise_not_())
            elif invert:  # a wrong word stays, so that it can be read again
                part[same] = ~expected[same]

    def result(self) -> Compared:
        return Compared(self._right, self._wrong, tuple(self._found))

    @staticmethod
    def _read(part: torch.Tensor) -> torch.Tensor:
        return part.clone()

    def _slices(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The memory slice by slice, and the numbers of its words."""
        for chunk in self.chunks:
            for begin in range(0, chunk.words.numel(), len(self._numbers)):
                part = chunk.words[begin : begin + len(self._numbers)]
                yield part, self._numbers[: len(part)] + (chunk.first + begin)
