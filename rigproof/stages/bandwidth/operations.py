"""The operations on the buffers, and how each result is verified.

The buffers hold whole numbers that fp32 represents exactly: `factor` random ones, and `rest` is
TOTAL - SCALE · factor, so that the triad rest + SCALE · factor is TOTAL in every element. The checksum of a
buffer that holds a single number can be computed without a reference. Before each round the target is
overwritten with other data, so that skipped work cannot look right.
"""

import struct
from abc import ABC, abstractmethod
from typing import ClassVar

import torch

from rigproof.devices.device import Checksums, Device

SCALE, TOTAL = 3.0, 2.0**15
SPREAD = 256.0  # standard deviation of `factor`: all values stay far below 2^24, up to which fp32 is exact
STALE = -1.0
SEED = 1


class Buffers:
    """Three square fp32 matrices: `target`, `factor` and `rest`.

    `rest_checksum` is the expected result of reading `rest`; `flaw` says what the memory did not store
    correctly, empty if nothing.
    """

    def __init__(self, device: Device, size: int) -> None:
        self.device = device
        self.target, self.factor, self.rest = (device.empty(size, "fp32") for _ in range(3))
        self.elements = size * size
        self.gb = self.elements * self.target.element_size() / 1e9
        for matrix in (self.target, self.factor):  # the same data twice: shows memory that does not store it
            device.fill_normal(matrix, SEED)
            matrix.mul_(SPREAD).round_()
        torch.mul(self.factor, -SCALE, out=self.rest).add_(TOTAL)
        first, second, self.rest_checksum = self.checksums(self.target, self.factor, self.rest)
        self.flaw = "" if first == second else "two buffers filled with the same data differ"

    def checksums(self, *matrices: torch.Tensor) -> tuple[int, ...]:
        """Checksums of these matrices; waits for the device."""
        sums = self.device.checksums(len(matrices))
        for matrix in matrices:
            sums.add(matrix)
        sums.fetch()
        self.device.mark().wait()
        return sums.take()

    def constant_checksum(self, value: float) -> int:
        """The checksum of a buffer filled with this number; the number of elements is even."""
        (word,) = struct.unpack("<q", struct.pack("<ff", value, value))
        total: int = word * (self.elements // 2)
        return (total + 2**63) % 2**64 - 2**63


class Operation(ABC):
    """An operation on the buffers. `passes`: how many buffers it reads or writes."""

    name: ClassVar[str]
    passes: ClassVar[int]

    def __init__(self, buffers: Buffers) -> None:
        self.buffers = buffers

    def prepare(self) -> None:
        """Queue what must be done before the measured time."""
        self.buffers.target.fill_(STALE)

    @abstractmethod
    def launch(self, sums: Checksums) -> None:
        """Queue the operation once; one that reads adds its result to `sums`."""

    @abstractmethod
    def wrong(self, read: tuple[int, ...]) -> str:
        """What is wrong with a round's result; empty if nothing is. Not part of the measured time."""


class Write(Operation):
    """Writes a constant, another one in each round."""

    name, passes = "write", 1

    def __init__(self, buffers: Buffers) -> None:
        super().__init__(buffers)
        self._value = 0.0

    def prepare(self) -> None:
        self._value = self._value % 1000 + 1

    def launch(self, sums: Checksums) -> None:  # noqa: ARG002 - it reads nothing
        self.buffers.target.fill_(self._value)

    def wrong(self, read: tuple[int, ...]) -> str:  # noqa: ARG002
        (checksum,) = self.buffers.checksums(self.buffers.target)
        return difference(checksum, self.buffers.constant_checksum(self._value), "what was written")


class Read(Operation):
    """Reads a buffer: the sum of its 64-bit words."""

    name, passes = "read", 1

    def prepare(self) -> None:
        """Nothing to prepare: it writes nothing."""

    def launch(self, sums: Checksums) -> None:
        sums.add(self.buffers.rest)

    def wrong(self, read: tuple[int, ...]) -> str:
        expected = self.buffers.rest_checksum
        wrong = next((checksum for checksum in read if checksum != expected), expected)
        return difference(wrong, expected, "what was read")


class Copy(Operation):
    """Copies one buffer to another."""

    name, passes = "copy", 2

    def launch(self, sums: Checksums) -> None:  # noqa: ARG002
        self.buffers.target.copy_(self.buffers.rest)

    def wrong(self, read: tuple[int, ...]) -> str:  # noqa: ARG002
        # Element by element: a sum does not show words in the wrong place.
        same = torch.equal(self.buffers.target, self.buffers.rest)
        return "" if same else "the copy differs from its source"


class Triad(Operation):
    """Adds one buffer and a multiple of another, into a third: all of its elements are then TOTAL."""

    name, passes = "triad", 3

    def launch(self, sums: Checksums) -> None:  # noqa: ARG002
        torch.add(self.buffers.rest, self.buffers.factor, alpha=SCALE, out=self.buffers.target)

    def wrong(self, read: tuple[int, ...]) -> str:  # noqa: ARG002
        (checksum,) = self.buffers.checksums(self.buffers.target)
        return difference(checksum, self.buffers.constant_checksum(TOTAL), "the triad")


OPERATIONS: tuple[type[Operation], ...] = (Write, Read, Copy, Triad)


def difference(checksum: int, expected: int, what: str) -> str:
    """A message if a checksum is not the expected one; else empty."""
    if checksum == expected:
        return ""
    return f"{what} has the checksum {checksum % 2**64:016x}, not {expected % 2**64:016x}"
