"""The memory of transfers, how it is copied, and how each copy is verified. Imports torch.

Host and device make the same numbers by themselves, `(2 i + 1) × FACTOR` modulo 2^64, so that what is sent is
known at both ends without being sent. All of them are odd.

- **To the device** the host's numbers are copied over zeros, which are even, and compared there.
- **To the host** the device first adds 2 to each of its numbers, so that whatever an earlier copy left at the
  target is wrong everywhere. What arrived is copied back over older numbers and compared on the device:
  comparing on the host would take longer than ten copies. Once, at the end, the host itself looks at it.

A copy that did not take place thus leaves numbers that are wrong, in any part of the buffers.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch

from rigproof.devices.device import Device
from rigproof.stages.transfer.stage import D2H, H2D

FACTOR = 0x1E3779B97F4A7C15  # odd, with ones and zeros in every byte
WORDS_PER_MIB = 2**17
HEAD_STARTS = 4  # a buffer is cleared as often before a copy: some 0.1 ms on an H200
FILLING_SHARE = 4  # the target of copies that only keep the link busy is a quarter of a buffer


def fill(row: torch.Tensor) -> torch.Tensor:
    """Write the first of the numbers that are sent."""
    torch.arange(len(row), out=row)
    return row.mul_(2 * FACTOR).add_(FACTOR)  # 64-bit integers wrap around, everywhere alike


class Buffers:
    """Pinned host memory and device memory of `mib` each. `mib_at_once`: how much of it a copy moves."""

    def __init__(self, device: Device, mib: int) -> None:
        self.device = device
        self.mib_at_once = self.mib = mib
        on_card = device.kind == "cuda"
        where = torch.device("cuda", torch.cuda.current_device()) if on_card else torch.device("cpu")
        words = mib * WORDS_PER_MIB
        self.host_source = fill(torch.empty(words, dtype=torch.int64, pin_memory=on_card))
        self.host_target = torch.zeros(words, dtype=torch.int64, pin_memory=on_card)
        self.spare = torch.empty(max(1, words // FILLING_SHARE), dtype=torch.int64, pin_memory=on_card)
        self.expected = fill(torch.empty(words, dtype=torch.int64, device=where))
        self.payload = self.expected.clone()  # what is sent to the host, another number each time
        self._sent = self._arrived = 0  # how many times, and how many numbers the last time
        self.target, self.back = (torch.zeros(words, dtype=torch.int64, device=where) for _ in range(2))
        self._wrong = torch.zeros(2, dtype=torch.int64, device=where)
        self._wrong_here = torch.zeros(2, dtype=torch.int64, pin_memory=on_card)
        self._side = torch.cuda.Stream() if on_card else None

    @property
    def words(self) -> int:
        """How many numbers a copy moves."""
        return self.mib_at_once * WORDS_PER_MIB

    @property
    def gb(self) -> float:
        """10^9 bytes of one copy."""
        return self.words * 8 / 1e9

    def copy(self, directions: tuple[str, ...], *, filling: bool = False) -> tuple[float, str]:
        """Copy once in each of these directions, at the same time. Returns device seconds, and what is wrong.

        `filling`: while what arrived at the host is verified, copies that do not count keep the link busy in
        that direction, so that the other cards' transfers are not alone meanwhile.
        """
        words, device = self.words, self.device
        self._prepare(directions)
        for _ in range(HEAD_STARTS):  # else the measured time includes that for the host to queue the copy
            self.back.zero_()
        start = device.mark()
        if H2D in directions:
            with self._beside() if D2H in directions else nullcontext():
                self.to_device(self.target[:words], self.host_source[:words])
        if D2H in directions:
            self.to_host(self.host_target[:words], self.payload[:words])
        self._join()
        end = device.mark()
        self._verify(directions, filling=filling)
        device.mark().wait()
        return end.seconds_since(start), self._message(directions)

    def to_device(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Queue a copy from the host."""
        target.copy_(source, non_blocking=True)

    def to_host(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Queue a copy to the host."""
        target.copy_(source, non_blocking=True)

    def keep_awake(self) -> None:
        """A moment of work in the device's own memory: an idle card would let its link go down."""
        self.back.zero_()
        self.device.mark().wait()

    def seen_by_host(self) -> str:
        """What the host finds wrong with the last copy to it; empty if nothing, or if there was none."""
        words = self._arrived
        if torch.equal(self.host_target[:words], self.host_source[:words] + 2 * self._sent):
            return ""
        return f"{D2H}: the host reads other numbers than the device gets back from it"

    def _prepare(self, directions: tuple[str, ...]) -> None:
        words = self.words
        if H2D in directions:
            self.target[:words].zero_()
        if D2H in directions:
            self.payload.add_(2)
            self._sent, self._arrived = self._sent + 1, words

    def _verify(self, directions: tuple[str, ...], *, filling: bool) -> None:
        words = self.words
        self._wrong.fill_(-1)  # a count that was not made is no count
        if H2D in directions:
            self._count_wrong(0, self.target[:words], self.expected[:words])
        if D2H in directions:
            with self._beside():
                self.to_device(self.back[:words], self.host_target[:words])
                self._count_wrong(1, self.back[:words], self.payload[:words])
            for _ in range(FILLING_SHARE if filling else 0):
                self.to_host(self.spare, self.payload[: len(self.spare)])
            self._join()
        self._wrong_here.copy_(self._wrong, non_blocking=True)

    def _count_wrong(self, place: int, got: torch.Tensor, wanted: torch.Tensor) -> None:
        torch.sum(torch.ne(got, wanted), dim=0, dtype=torch.int64, out=self._wrong[place])

    def _message(self, directions: tuple[str, ...]) -> str:
        found = []
        both = ((H2D, self.target, self.expected), (D2H, self.back, self.payload))
        for number, (direction, got, wanted) in zip(self._wrong_here.tolist(), both, strict=True):
            if direction in directions and number:
                found.append(f"{direction}: {self._located(number, got, wanted)}")
        return "; ".join(found)

    def _located(self, number: int, got: torch.Tensor, wanted: torch.Tensor) -> str:
        different = (got[: self.words] != wanted[: self.words]).nonzero()
        if number < 0 or not len(different):
            return "what arrived was not compared, or is no longer wrong"
        first = int(different[0])
        read, sent = (int(one[first]) % 2**64 for one in (got, wanted))
        return f"{number} of {self.words} words differ, the first at {first}: {read:016x}, not {sent:016x}"

    @contextmanager
    def _beside(self) -> Iterator[None]:
        """Work on a second queue, behind what is queued in the first one so far."""
        if self._side is None:
            yield
            return
        self._side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._side):
            yield

    def _join(self) -> None:
        """Let the first queue wait for the second one."""
        if self._side is not None:
            torch.cuda.current_stream().wait_stream(self._side)
