"""Rounds of equal work, queued ahead so that the device never waits for the host."""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from rigproof.devices.device import Checksums, Device, Mark
from rigproof.records.measurements import Phase

MIN_ROUND_S = 0.02  # shorter ones would show the gaps between launches

Work = TypeVar("Work")


@dataclass(frozen=True, slots=True)
class FinishedRound(Generic[Work]):
    """A round the device has done: its own time for `products` products, and their checksums."""

    seconds: float
    products: int
    phase: Phase
    checksums: tuple[int, ...]
    work: Work


@dataclass(frozen=True, slots=True)
class _Queued(Generic[Work]):
    start: Mark
    end: Mark
    sums: Checksums
    products: int
    phase: Phase
    work: Work


class RoundQueue(Generic[Work]):
    """Launches rounds between two marks each, and waits for the oldest while newer ones run.

    `launch(products, sums)` queues that many products and adds the checksum of each; its return value
    comes with the finished round. A round's seconds include its checksums. The host never waits for
    the whole device: only for the oldest round's last mark.
    """

    def __init__(self, device: Device, launch: Callable[[int, Checksums], Work]) -> None:
        self._device = device
        self._launch = launch
        self._queued: deque[_Queued[Work]] = deque()
        self._spare: list[Checksums] = []

    @property
    def full(self) -> bool:
        """Whether the device has enough queued work for now."""
        return len(self._queued) >= self._device.queue_depth

    def __len__(self) -> int:
        return len(self._queued)

    def add(
        self, products: int, phase: Phase, launch: Callable[[int, Checksums], Work] | None = None
    ) -> None:
        """Queue one round, by another `launch` if given.

        An error of the device leaves the queue as it was.
        """
        sums = self._room_for(products)
        start = self._device.mark()
        work = (launch or self._launch)(products, sums)
        sums.fetch()
        self._queued.append(_Queued(start, self._device.mark(), sums, products, phase, work))

    def finish(self) -> FinishedRound[Work]:
        """Wait for the oldest round."""
        oldest = self._queued.popleft()
        oldest.end.wait()
        seconds = oldest.end.seconds_since(oldest.start)
        values = oldest.sums.take()
        self._spare = [oldest.sums]
        return FinishedRound(seconds, oldest.products, oldest.phase, values, oldest.work)

    def _room_for(self, count: int) -> Checksums:
        """The last finished round's checksums if they are large enough, to avoid an allocation in a round."""
        if self._spare and self._spare[0].capacity >= count:
            return self._spare.pop()
        return self._device.checksums(count)


def products_for(round_s: float, product_s: float) -> int:
    """How many products last about a round."""
    return max(1, math.ceil(max(round_s, MIN_ROUND_S) / product_s)) if product_s > 0 else 1


def adapted(products: int, seconds: float, round_s: float) -> int:
    """The number of products for the next round, changed if this one was far off its length.

    A card that wakes from idle speeds up tenfold within its first rounds.
    """
    aimed_s = max(round_s, MIN_ROUND_S)
    if 0.8 * aimed_s <= seconds <= 1.6 * aimed_s:
        return products
    return products_for(round_s, seconds / products)
