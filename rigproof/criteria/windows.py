"""Stretches of run time: a stage's loaded window, its slices, and the work done inside them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rigproof.records.measurements import Round

# No run takes a week. A longer stretch is a clock that jumped, and would be cut into endless slices.
LONGEST_S = 7 * 86400.0


@dataclass(frozen=True, slots=True)
class Window:
    """From `from_s` to `to_s`, run time. `complete` is False where the load broke off inside it."""

    from_s: float
    to_s: float
    complete: bool = True

    @property
    def length_s(self) -> float:
        """Seconds."""
        return self.to_s - self.from_s

    def slices(self, width_s: float) -> tuple["Window", ...]:
        """The whole slices of that width, from the start; a rest shorter than one is left out."""
        # The nudge keeps the last slice where the length is a multiple of the width but for rounding.
        number = max(0, math.floor(self.length_s / width_s + 1e-6))
        starts = [self.from_s + index * width_s for index in range(number)]
        return tuple(Window(start, start + width_s) for start in starts)

    def quarters(self) -> tuple["Window", ...]:
        """Four slices, so that a fault that begins late is not averaged away."""
        return self.slices(self.length_s / 4) if self.length_s > 0 else ()


def work_by_slice(rounds: Iterable[Round], slices: Sequence[Window]) -> list[float]:
    """TFLOP done in each of the adjoining, equal slices; a round counts in proportion to its overlap.

    Linear in the number of rounds. Rounds must have positive, finite lengths.
    """
    work = [0.0] * len(slices)
    if not slices:
        return work
    origin_s, width_s = slices[0].from_s, slices[0].length_s
    for one in rounds:
        start_s = one.t_s - one.seconds
        first = max(0, math.floor((start_s - origin_s) / width_s))
        last = min(len(slices) - 1, math.floor((one.t_s - origin_s) / width_s))
        for index in range(first, last + 1):
            overlap_s = min(one.t_s, slices[index].to_s) - max(start_s, slices[index].from_s)
            if overlap_s > 0:
                work[index] += one.tflop * overlap_s / one.seconds
    return work


def values_by_slice(readings: Iterable[tuple[float, float]], slices: Sequence[Window]) -> list[list[float]]:
    """The values of (time, value) pairs that fall into each of the adjoining, equal slices."""
    values: list[list[float]] = [[] for _ in slices]
    if not slices:
        return values
    origin_s, width_s = slices[0].from_s, slices[0].length_s
    for t_s, value in readings:
        index = math.floor((t_s - origin_s) / width_s)
        if 0 <= index < len(slices):
            values[index].append(value)
    return values
