"""Copies between two devices: their memory, how it is copied, and how each copy is verified. Imports torch.

Both devices make the same numbers by themselves, other ones for each sender, so that what is sent is known at
its target without being sent. Before each copy both add 2 to all of them, and the target is cleared. All
numbers are odd: zeros, and whatever an earlier copy left, are wrong everywhere. The copy is compared at its
target, every word of it, and an odd number of words, so that the last ones are no whole vector.

`engine`: torch copies contiguous memory by the driver, which uses a copy engine. `kernel`: what is sent is
stored transposed, which torch does by a kernel on the sender, if that reaches the other's memory; otherwise
it would send a contiguous copy. So a kernel's stores are tested without one of our own, which would have to
be compiled.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from time import perf_counter

import torch

from rigproof.stages.peer.stage import KERNEL

FACTOR = 0x1E3779B97F4A7C15  # odd, with ones and zeros in every byte
SENDER_BITS = 40  # numbers of another sender differ from bit 40 on
ROWS = 3  # of what a kernel transposes: odd, so that the number of words is
WORDS_PER_MIB = 2**17


def odd_words(mib: float) -> int:
    """The most words in so many MiB that are an odd multiple of ROWS."""
    return ROWS * (int(mib * WORDS_PER_MIB / ROWS / 2) * 2 - 1)


def numbers(words: int, where: torch.device, sender: int) -> torch.Tensor:
    """The first numbers that a sender sends: (2 i + 1) × FACTOR, shifted by its own number; modulo 2^64."""
    row = torch.arange(words, dtype=torch.int64, device=where)
    return row.mul_(2 * FACTOR).add_(FACTOR + 2 * (sender << SENDER_BITS))


class Moment:
    """A moment in a queue's order of work; on the CPU, where work is done at once, a time."""

    def __init__(self, queue: torch.cuda.Stream | None) -> None:
        self.event: torch.cuda.Event | None = None
        self.s = 0.0
        if queue is None:
            self.s = perf_counter()
        else:
            self.event = torch.cuda.Event(enable_timing=True, blocking=True)
            self.event.record(queue)

    def wait(self) -> None:
        """Block until it is reached."""
        if self.event is not None:
            self.event.synchronize()

    def seconds_since(self, earlier: "Moment") -> float:
        """Device time since an earlier moment of the same device; both are reached."""
        if self.event is None or earlier.event is None:
            return max(self.s - earlier.s, 1e-9)
        return float(earlier.event.elapsed_time(self.event)) / 1e3


class Queue:
    """A queue of work on a device."""

    def __init__(self, where: torch.device) -> None:
        self.where = where
        self.stream = torch.cuda.Stream(where) if where.type == "cuda" else None

    def mark(self) -> Moment:
        """A moment behind everything queued so far."""
        return Moment(self.stream)

    def after(self, moment: Moment) -> None:
        """What is queued from now on begins after it."""
        if self.stream is not None and moment.event is not None:
            self.stream.wait_event(moment.event)


class Card:
    """A device with a queue for what it sends, and one for what it receives."""

    def __init__(self, number: int, where: torch.device) -> None:
        self.number = number
        self.where = where
        self.sends, self.receives = Queue(where), Queue(where)

    def wait(self) -> None:
        """Block until all its work is done."""
        if self.where.type == "cuda":
            torch.cuda.synchronize(self.where)


@contextmanager
def on(*queues: Queue) -> Iterator[None]:
    """Queue work of each of these devices in its queue here."""
    with ExitStack() as stack:
        for queue in queues:
            if queue.stream is not None:
                stack.enter_context(torch.cuda.stream(queue.stream))
        yield


class Lane:
    """One way between two devices. `words` are copied at a time, of as many as there were at first."""

    def __init__(self, sender: Card, receiver: Card, words: int) -> None:
        self.sends, self.receives = sender.sends, receiver.receives
        self.words = words
        self._source = numbers(words, sender.where, sender.number)
        self._target = torch.zeros(words, dtype=torch.int64, device=receiver.where)
        self._wanted = numbers(words, receiver.where, sender.number)
        self._wrong = torch.zeros((), dtype=torch.int64, device=receiver.where)

    def prepare(self) -> None:
        """Make other numbers at both ends, all of them, which gives the host time to queue the copy."""
        with on(self.sends):
            self._source.add_(2)
        with on(self.receives):
            self._wanted.add_(2)
            self._target[: self.words].zero_()
            self._wrong.fill_(-1)  # a count that was not made is no count

    def copy(self, by: str) -> None:
        """Queue the copy."""
        with on(self.sends, self.receives):
            self.send(self._arrives(by), self._source[: self.words].view(-1, ROWS))

    def send(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Queue the copy of one table to the other device."""
        target.copy_(source, non_blocking=True)

    def verify(self, by: str) -> None:
        """Queue the comparison of every word with what it should be."""
        with on(self.receives):
            differ = torch.ne(self._arrives(by), self._expected())
            torch.sum(differ, dim=(0, 1), dtype=torch.int64, out=self._wrong)

    def found(self, by: str) -> str:
        """What was wrong, once that is done: how many words, and where the first one; empty if none."""
        number = int(self._wrong)
        if not number:
            return ""
        got, wanted = self._arrives(by), self._expected()
        different = (got != wanted).nonzero()
        if number < 0 or not len(different):
            return "what arrived was not compared, or is no longer wrong"
        row, column = different[0].tolist()
        read, sent = (int(one[row, column]) % 2**64 for one in (got, wanted))
        place = row * ROWS + column
        return f"{number} of {self.words} words differ, first at {place}: {read:016x}, not {sent:016x}"

    def _arrives(self, by: str) -> torch.Tensor:
        target = self._target[: self.words]
        return target.view(ROWS, -1).t() if by == KERNEL else target.view(-1, ROWS)

    def _expected(self) -> torch.Tensor:
        return self._wanted[: self.words].view(-1, ROWS)


def copied(lanes: Sequence[Lane], by: str) -> tuple[float, str]:
    """Copy once on each of these lanes, at the same time. Returns device seconds, and what is wrong first."""
    first = lanes[0].sends
    for lane in lanes:
        lane.prepare()
    for queue in (queue for lane in lanes for queue in (lane.sends, lane.receives)):
        first.after(queue.mark())
    start = first.mark()
    for lane in lanes[1:]:
        lane.sends.after(start)
    for lane in lanes:
        lane.copy(by)
    for lane in lanes[1:]:
        first.after(lane.sends.mark())
    end = first.mark()
    for lane in lanes:
        lane.verify(by)
    for queue in (first, *(lane.receives for lane in lanes)):
        queue.mark().wait()
    return end.seconds_since(start), next(filter(None, [lane.found(by) for lane in lanes]), "")
