"""Collective operations on numbers whose answers every rank knows beforehand. Imports torch.

Element i of rank r in operation number k is `a(i, k) + b(r, k) g(i, k)`: whole numbers with -512 <= a <= 511,
-63 <= b <= 63 and 1 <= g <= 8. So no element is beyond 1016, and the sum of n ranks, `n a + g (sum of b)`,
is exact in fp32 in any order of adding, up to 1024 ranks (1,040,384 < 2^24). An element that is missing,
doubled, or of another place, rank or operation changes the answer: two ranks have the same b only if they are
a multiple of 127 apart.

Where an answer goes there is NaN before, so that what was not written is wrong.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import torch
import torch.distributed as dist

from rigproof.stages.collective.stage import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BROADCAST,
    REDUCE_SCATTER,
    WORD_BYTES,
)

BATCH = 64  # operations that are started together, at most
STEPS = 2  # from a batch to the next one: the batch itself, and what ranks agree on after it
# Elements that are made or compared at a time: as many as stay in a CPU's cache, or as keep a GPU busy for as
# long as its host takes to queue the next ones. In parts of 2^20, two H200 exchanged for 3 % of the time.
CHUNKS = {"cpu": 2**18, "cuda": 2**23}
MULTIPLIER, STRIDE = 2654435761, 0x61C88647  # Knuth's; any odd numbers
B_VALUES = 127
Rank: TypeAlias = "int | None"  # None: the sum over all ranks


def b_of(rank: int, number: int) -> int:
    """b of a rank in an operation."""
    return (37 * rank + 11 * number) % B_VALUES - B_VALUES // 2


def signed(value: int) -> int:
    """The 32 low bits of a number, as a signed one: integers of 32 bits wrap around, everywhere alike."""
    return (value + 2**31) % 2**32 - 2**31


@dataclass(frozen=True, slots=True)
class Part:
    """Elements of an answer, from `at` on: those of `rank` (None: of the sum) from `first` on."""

    at: int
    count: int
    first: int
    rank: Rank

    def chunks(self, most: int) -> Iterator["Part"]:
        """The same in parts of so many at most."""
        for done in range(0, self.count, most):
            yield Part(self.at + done, min(most, self.count - done), self.first + done, self.rank)


@dataclass(frozen=True, slots=True)
class Wrong:
    """Elements of an answer that differ: how many, the first and the last, and the first one's values."""

    count: int
    first: int
    last: int
    got: float
    expected: float


def numbers(part: Part, number: int, ranks: int, where: torch.device) -> torch.Tensor:
    """What this part of an answer of operation `number` must be: (count,) fp32."""
    mixed = torch.arange(part.first, part.first + part.count, dtype=torch.int32, device=where)
    mixed.mul_(signed(MULTIPLIER)).add_(signed(number * STRIDE))
    g = torch.bitwise_right_shift(mixed, 13).bitwise_and_(7).add_(1)
    a = mixed.bitwise_right_shift_(22).bitwise_and_(1023).sub_(512)
    if part.rank is None:
        a.mul_(ranks)
        factor = sum(b_of(one, number) for one in range(ranks))
    else:
        factor = b_of(part.rank, number)
    return a.add_(g.mul_(factor)).to(torch.float32)


class Operation(ABC):
    """One rank's part in an operation on `elements` of each rank, or of each part that ranks exchange.

    `bus_factor`: bytes on the bus for each byte of `size_bytes`, by the number of ranks (nccl-tests,
    doc/PERFORMANCE.md).
    """

    name: ClassVar[str]
    in_place: ClassVar[bool] = False
    sends_parts: ClassVar[bool] = True  # its operand has a part for each rank
    gets_parts: ClassVar[bool] = True  # its answer has a part of each rank

    def __init__(self, elements: int, rank: int, ranks: int, where: torch.device, repeats: int) -> None:
        self.elements, self.rank, self.ranks, self.where = elements, rank, ranks, where
        sent, got = (ranks if parts else 1 for parts in (self.sends_parts, self.gets_parts))
        self.operands = [self._room(sent) for _ in range(repeats)]
        self.answers = self.operands if self.in_place else [self._room(got) for _ in range(repeats)]

    def _room(self, parts: int) -> torch.Tensor:
        return torch.empty(parts * self.elements, dtype=torch.float32, device=self.where)

    @property
    def size_bytes(self) -> int:
        """Its size as nccl-tests counts it: of the larger side."""
        return WORD_BYTES * self.elements * (self.ranks if self.sends_parts or self.gets_parts else 1)

    @property
    def bus_factor(self) -> float:
        return (self.ranks - 1) / self.ranks

    def prepare(self, place: int, number: int) -> None:
        """Write the operand of operation `number` into its buffer, and NaN where its answer goes."""
        operand = self.operands[place]
        self.answers[place].fill_(torch.nan)
        for part in Part(0, len(operand), 0, self.rank).chunks(CHUNKS[self.where.type]):
            operand[part.at : part.at + part.count] = self._expected(part, number)

    @abstractmethod
    def start(self, place: int, number: int, /) -> None:
        """Queue operation `number`."""

    @abstractmethod
    def answer(self, number: int, /) -> Iterator[Part]:
        """What the answer of operation `number` must be."""

    def wrong(self, first_number: int) -> list[Wrong]:
        """What is wrong with the answers of the operations from that number on; all elements are compared."""
        count = torch.zeros((), dtype=torch.int64, device=self.where)
        for place, got in enumerate(self.answers):
            for part in self._chunks(first_number + place):
                expected = self._expected(part, first_number + place)
                count += (got[part.at : part.at + part.count] != expected).sum()
        if not int(count):
            return []
        located = (self._located(place, first_number + place) for place in range(len(self.answers)))
        return [one for one in located if one is not None]

    def _located(self, place: int, number: int) -> Wrong | None:
        total, first, last, values = 0, 0, 0, (0.0, 0.0)
        for part in self._chunks(number):
            got, expected = self.answers[place][part.at : part.at + part.count], self._expected(part, number)
            (places,) = (got != expected).nonzero(as_tuple=True)
            if len(places):
                if not total:
                    first = part.at + int(places[0])
                    values = float(got[places[0]]), float(expected[places[0]])
                total, last = total + len(places), part.at + int(places[-1])
        return Wrong(total, first, last, *values) if total else None

    def _chunks(self, number: int) -> Iterator[Part]:
        for part in self.answer(number):
            yield from part.chunks(CHUNKS[self.where.type])

    def _expected(self, part: Part, number: int) -> torch.Tensor:
        return numbers(part, number, self.ranks, self.where)


class AllReduce(Operation):
    """Every rank gets the sum of all operands."""

    name = ALL_REDUCE
    in_place, sends_parts, gets_parts = True, False, False

    @property
    def bus_factor(self) -> float:
        return 2 * (self.ranks - 1) / self.ranks

    def start(self, place: int, _number: int, /) -> None:
        dist.all_reduce(self.operands[place])

    def answer(self, _number: int, /) -> Iterator[Part]:
        yield Part(0, self.elements, 0, None)


class AllGather(Operation):
    """Every rank gets the operands of all."""

    name = ALL_GATHER
    sends_parts = False

    def start(self, place: int, _number: int, /) -> None:
        dist.all_gather_into_tensor(self.answers[place], self.operands[place])

    def answer(self, _number: int, /) -> Iterator[Part]:
        for rank in range(self.ranks):
            yield Part(rank * self.elements, self.elements, 0, rank)


class ReduceScatter(Operation):
    """Every rank gets its part of the sum."""

    name = REDUCE_SCATTER
    gets_parts = False

    def start(self, place: int, _number: int, /) -> None:
        dist.reduce_scatter_tensor(self.answers[place], self.operands[place])

    def answer(self, _number: int, /) -> Iterator[Part]:
        yield Part(0, self.elements, self.rank * self.elements, None)


class Broadcast(Operation):
    """Every rank gets the operand of one, which is another one in each batch."""

    name = BROADCAST
    in_place, sends_parts, gets_parts = True, False, False

    @property
    def bus_factor(self) -> float:
        return 1.0

    def prepare(self, place: int, number: int) -> None:
        if self._root(number) == self.rank:
            super().prepare(place, number)
        else:
            self.answers[place].fill_(torch.nan)

    def start(self, place: int, number: int, /) -> None:
        dist.broadcast(self.operands[place], src=self._root(number))

    def answer(self, number: int, /) -> Iterator[Part]:
        yield Part(0, self.elements, 0, self._root(number))

    def _root(self, number: int) -> int:
        return number // BATCH // STEPS % self.ranks


class AllToAll(Operation):
    """Every rank gets its part of every operand."""

    name = ALL_TO_ALL

    def start(self, place: int, _number: int, /) -> None:
        dist.all_to_all_single(self.answers[place], self.operands[place])

    def answer(self, _number: int, /) -> Iterator[Part]:
        for rank in range(self.ranks):
            yield Part(rank * self.elements, self.elements, self.rank * self.elements, rank)


KINDS: dict[str, type[Operation]] = {
    kind.name: kind for kind in (AllReduce, AllGather, ReduceScatter, Broadcast, AllToAll)
}
