"""The pieces of a device's loads, and what a sensor read in each of them."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rigproof.criteria.evidence.readings import Floats
from rigproof.criteria.evidence.series import Series
from rigproof.criteria.evidence.windows import Window

Numbers = npt.NDArray[np.intp]


class Piece(NamedTuple):
    """Measured work that is judged as one: a stretch, a part of one, or several short neighbours.

    Some twenty are made for each device: a dataclass would take three times as long.
    """

    stretches: tuple[Window, ...]
    places: tuple[slice, ...]  # of the samples in each, in the device's series

    @classmethod
    def of(cls, pieces: Sequence["Piece"]) -> "Piece":
        """Neighbouring pieces joined into one."""
        if len(pieces) == 1:
            return pieces[0]
        stretches = tuple(one for piece in pieces for one in piece.stretches)
        return cls(stretches, tuple(one for piece in pieces for one in piece.places))

    @property
    def samples(self) -> int:
        """The number of samples."""
        return sum(one.stop - one.start for one in self.places)

    @property
    def span(self) -> Window:
        """From its beginning to its end, including the time between its stretches."""
        return Window(self.stretches[0].from_s, self.stretches[-1].to_s)

    @property
    def length_s(self) -> float:
        """Seconds of measured work in it."""
        return sum(stretch.length_s for stretch in self.stretches)


class PieceReadings:
    """What a sensor of one device read in some pieces; each array has a value for each of `pieces`.

    `parts` are the samples of each piece, NaN where a sample lacks it; a figure of a piece without readings
    is NaN.
    """

    def __init__(self, pieces: Sequence[Piece], series: Series[Any], field: str) -> None:
        self.pieces = pieces
        numbers = series.numbers(field)
        self.parts = [np.concatenate([numbers[place] for place in piece.places]) for piece in pieces]
        self._known = [part[~np.isnan(part)] for part in self.parts]

    @property
    def counts(self) -> Numbers:
        """The number of readings."""
        return np.asarray([len(one) for one in self._known])

    @cached_property
    def means(self) -> Floats:
        """The mean."""
        return self._each(np.mean)

    @cached_property
    def medians(self) -> Floats:
        """The median."""
        return self._each(np.median)

    @cached_property
    def upper_medians(self) -> Floats:
        """The highest value that at least half of the readings reach."""
        return self._each(lambda one: np.sort(one)[len(one) // 2])

    @cached_property
    def lowest(self) -> Floats:
        """The lowest reading."""
        return self._each(np.min)

    def _each(self, figure: Callable[[Floats], Any]) -> Floats:
        return np.asarray([figure(one) if len(one) else np.nan for one in self._known], np.float64)
