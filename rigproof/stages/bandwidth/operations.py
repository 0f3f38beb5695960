"""What is done to the buffers, and how each result is known to be right.

The buffers hold whole numbers that fp32 represents exactly: `factor` random ones and `rest`, which is
TOTAL - SCALE · factor, so that the triad rest + SCALE · factor is TOTAL in every element. A buffer that holds
one number has a checksum that needs no reference. Before each round the target is overwritten with other
data: work that was left out cannot look right.
"""

import struct
from abc import ABC, abstractmethod
from typing import ClassVar

import torch

from rigproof.devices.device import Checksums, Device

SCALE, TOTAL = 3.0, 2.0**15
SPREAD = 256.0  # standard deviation of `factor`: nothing comes near 2^24, up to which fp32 is exact
STALE = -1.0
SEED = 1


class Buffers:
    """Three square fp32 matrices: `target`, `factor` and `rest`.

    `rest_checksum` is what reading `rest` has to give; `flaw` says what the memory did not keep.
    """

    def __init__(self, device: Device, size: int) -> None:
        self.device = device
        self.target, self.factor, self.rest = (device.empty(size, "fp32") for _ in range(3))
        self.elements = size * size
        self.gb = self.elements * self.target.element_size() / 1e9
        for matrix in (self.target, self.factor):  # twice the same: memory that keeps nothing shows
            device.fill_normal(matrix, SEED)
            matrix.mul_(SPREAD).round_()
        torch.mul(self.factor, -SCALE, out=self.rest).add_(TOTAL)
        first, second, self.rest_checksum = self.checksums(self.target, self.factor, self.rest)
        self.flaw = "" if first == second else "two buffers filled with the same data differ"

    def checksums(self, *matrices: torch.Tensor) -> tuple[int, ...]:
        """Of these; waits for the device."""
        sums = self.device.checksums(len(matrices))
        for matrix in matrices:
            sums.add(matrix)
        sums.fetch()
        self.device.mark().wait()
        return sums.take()

    def constant_checksum(self, value: float) -> int:
        """What a buffer that holds this number everywhere has; the number of elements is even."""
        (word,) = struct.unpack("<q", struct.pack("<ff", value, value))
        total: int = word * (self.elements // 2)
        return (total + 2**63) % 2**64 - 2**63


class Operation(ABC):
    """One of them. `passes`: how many buffers it reads or writes."""

    name: ClassVar[str]
    passes: ClassVar[int]

    def __init__(self, buffers: Buffers) -> None:
        self.buffers = buffers

    def prepare(self) -> None:
        """Queue what is no part of the measured time."""
        self.buffers.target.fill_(STALE)

    @abstractmethod
    def launch(self, sums: Checksums) -> None:
        """Queue it once; one that reads leaves what it read in `sums`."""

    @abstractmethod
    def wrong(self, read: tuple[int, ...]) -> str:
        """What is wrong with the result of a round, outside its time; empty where nothing is."""


class Write(Operation):
    """A constant, another one in each round."""

    name, passes = "write", 1

    def __init__(self, buffers: Buffers) -> None:
        super().__init__(buffers)
        self._value = 0.0

    def prepare(self) -> None:
        """Another constant than the one that is there."""
        self._value = self._value % 1000 + 1

    def launch(self, sums: Checksums) -> None:  # noqa: ARG002 - it reads nothing
        """Fill the target."""
        self.buffers.target.fill_(self._value)

    def wrong(self, read: tuple[int, ...]) -> str:  # noqa: ARG002
        """The last constant has to be everywhere."""
        (found,) = self.buffers.checksums(self.buffers.target)
        return differs(found, self.buffers.constant_checksum(self._value), "what was written")


class Read(Operation):
    """The sum of a buffer's 64-bit words."""

    name, passes = "read", 1

    def prepare(self) -> None:
        """Nothing is written."""

    def launch(self, sums: Checksums) -> None:
        """Sum `rest`."""
        sums.add(self.buffers.rest)

    def wrong(self, read: tuple[int, ...]) -> str:
        """Every sum has to be the same."""
        wrong = next((one for one in read if one != self.buffers.rest_checksum), self.buffers.rest_checksum)
        return differs(wrong, self.buffers.rest_checksum, "what was read")


class Copy(Operation):
    """One buffer to another."""

    name, passes = "copy", 2

    def launch(self, sums: Checksums) -> None:  # noqa: ARG002
        """Copy `rest` to the target."""
        self.buffers.target.copy_(self.buffers.rest)

    def wrong(self, read: tuple[int, ...]) -> str:  # noqa: ARG002
        """Element by element: a sum does not show words in the wrong place."""
        same = torch.equal(self.buffers.target, self.buffers.rest)
        return "" if same else "the copy differs from its source"


class Triad(Operation):
    """A sum of one buffer and a multiple of another, into a third."""

    name, passes = "triad", 3

    def launch(self, sums: Checksums) -> None:  # noqa: ARG002
        """rest + SCALE · factor."""
        torch.add(self.buffers.rest, self.buffers.factor, alpha=SCALE, out=self.buffers.target)

    def wrong(self, read: tuple[int, ...]) -> str:  # noqa: ARG002
        """TOTAL in every element."""
        (found,) = self.buffers.checksums(self.buffers.target)
        return differs(found, self.buffers.constant_checksum(TOTAL), "the triad")


OPERATIONS: tuple[type[Operation], ...] = (Write, Read, Copy, Triad)


def differs(found: int, expected: int, what: str) -> str:
    """Empty where a checksum is the expected one."""
    if found == expected:
        return ""
    return f"{what} has the checksum {found % 2**64:016x}, not {expected % 2**64:016x}"
