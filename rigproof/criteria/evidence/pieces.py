"""The pieces of a device's loads, and what a sensor read in each of them, computed for all pieces at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rigproof.criteria.evidence.readings import Floats
from rigproof.criteria.evidence.series import Series
from rigproof.criteria.evidence.windows import Window

Numbers = npt.NDArray[np.intp]
Figure = Literal["counts", "means", "upper_medians", "lowest", "highest"]
Extreme = Literal["least", "most"]
EXTREMES: dict[Extreme, np.ufunc] = {"least": np.minimum, "most": np.maximum}


@dataclass(frozen=True, slots=True)
class Piece:
    """Measured work that is judged as one: a stretch, a part of one, or several short neighbours."""

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


Of = tuple[str, str]  # a device and a stage


class PieceTable:
    """Pieces of several devices and stages, and the samples in each: one array (n,) for all pieces.

    Each of these devices and stages has at least one piece.
    """

    def __init__(self, series: Mapping[str, Series[Any]], pieces: Mapping[Of, Sequence[Piece]]) -> None:
        self.pieces = pieces
        self._series = series
        ends = accumulate(map(len, pieces.values()))
        self.rows = {of: slice(end - len(pieces[of]), end) for of, end in zip(pieces, ends, strict=True)}
        self.numbers = {of: number for number, of in enumerate(pieces)}
        self._first_rows: Numbers = np.asarray([one.start for one in self.rows.values()], np.intp)
        ends_of = accumulate(len(one.times_s) for one in series.values())
        begins = {
            device: end - len(one.times_s) for (device, one), end in zip(series.items(), ends_of, strict=True)
        }
        every = [(begins[device], one) for (device, _), those in pieces.items() for one in those]
        parts = [
            (row, begin + part.start, begin + part.stop)
            for row, (begin, piece) in enumerate(every)
            for part in piece.places
        ]
        row_of, first, end = np.asarray(parts, np.intp).reshape(-1, 3).T
        sizes = end - first
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        self.places: Numbers = np.repeat(first, sizes) + within
        self.piece_of: Numbers = np.repeat(row_of, sizes)
        self.starts: Numbers = np.searchsorted(self.piece_of, np.arange(len(every) + 1))
        self._columns: dict[str, PieceColumn] = {}

    def each_sample(self, values: Sequence[float]) -> Floats:
        """A value of each device and stage, for each of its samples, (n,)."""
        edges = self.starts[np.append(self._first_rows, len(self.starts) - 1)]
        return np.repeat(np.asarray(values, np.float64), edges[1:] - edges[:-1])

    def column(self, field: str) -> "PieceColumn":
        """A field of the samples."""
        if field not in self._columns:
            everything = np.concatenate([one.numbers(field) for one in self._series.values()])
            self._columns[field] = PieceColumn(
                everything[self.places], self.piece_of, self.starts, self._first_rows
            )
        return self._columns[field]


class PieceColumn:
    """A field of the samples of all pieces: `values` (n,), NaN where a sample lacks it.

    It knows the pieces, but not their table: that would refer to itself, and no collection is on to free it.
    """

    def __init__(self, values: Floats, piece_of: Numbers, starts: Numbers, first_rows: Numbers) -> None:
        self.values, self._piece_of, self._starts, self._first_rows = values, piece_of, starts, first_rows
        self._extremes: dict[tuple[Extreme, Figure], list[float]] = {}

    def extremes(self, extreme: Extreme, figure: Figure) -> list[float]:
        """The least or the most of a figure over the pieces of each device and stage."""
        if (extreme, figure) not in self._extremes:
            every = EXTREMES[extreme].reduceat(getattr(self, figure), self._first_rows)
            self._extremes[extreme, figure] = every.tolist()
        return self._extremes[extreme, figure]

    @property
    def samples(self) -> Numbers:
        """The number of samples in each piece."""
        return self._starts[1:] - self._starts[:-1]

    @cached_property
    def known(self) -> npt.NDArray[np.bool_]:
        """Whether each sample has a value, (n,)."""
        known: npt.NDArray[np.bool_] = ~np.isnan(self.values)
        return known

    @cached_property
    def counts(self) -> Numbers:
        """The number of values in each piece."""
        return self.sums(self.known).astype(np.intp)

    @cached_property
    def means(self) -> Floats:
        """The mean of each piece; NaN if it has no value."""
        values = self.values if self.known.all() else np.where(self.known, self.values, 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.sums(values) / self.counts

    @cached_property
    def medians(self) -> Floats:
        """The median of each piece; NaN if it has no value."""
        return (self._ranked((self.counts - 1) // 2) + self.upper_medians) / 2

    @cached_property
    def upper_medians(self) -> Floats:
        """The highest value that at least half of each piece's reach; NaN if it has no value."""
        return self._ranked(self.counts // 2)

    @cached_property
    def lowest(self) -> Floats:
        """The lowest value of each piece; NaN if it has no value."""
        return self._outermost(np.fmin)

    @cached_property
    def highest(self) -> Floats:
        """The highest value of each piece; NaN if it has no value."""
        return self._outermost(np.fmax)

    def _outermost(self, extreme: np.ufunc) -> Floats:
        found = np.full(len(self.samples), np.nan)
        (some,) = self.samples.nonzero()
        found[some] = extreme.reduceat(self.values, self._starts[some])
        return found

    @cached_property
    def _sorted(self) -> Floats:
        """The values, sorted within each piece, NaN last; one more NaN behind all."""
        return np.append(self.values[np.lexsort((self.values, self._piece_of))], np.nan)

    def _ranked(self, ranks: Numbers) -> Floats:
        """The value of this rank in each piece, 0 for the lowest; NaN if it has none."""
        return self._sorted[np.where(self.counts > 0, self._starts[:-1] + ranks, -1)]

    def sums(self, values: npt.NDArray[Any]) -> Floats:
        """The sum of these values, one for each of `values`, in each piece."""
        return _sums(self._piece_of, values, len(self._starts) - 1)


class PieceReadings:
    """What a sensor read in the pieces of one device and stage; arrays have a value for each of `pieces`."""

    def __init__(self, table: PieceTable, of: Of, field: str) -> None:
        self.pieces = table.pieces[of]
        self._table, self._column, self._rows = table, table.column(field), table.rows[of]
        self._number = table.numbers[of]

    def least(self, figure: Figure) -> float:
        """The least of a figure over the pieces; NaN if one has none."""
        return self._column.extremes("least", figure)[self._number]

    def most(self, figure: Figure) -> float:
        """The most of a figure over the pieces; NaN if one has none."""
        return self._column.extremes("most", figure)[self._number]

    @property
    def _places(self) -> slice:
        """Of its samples among those of the table."""
        return slice(self._table.starts[self._rows.start], self._table.starts[self._rows.stop])

    @property
    def values(self) -> Floats:
        """Of the samples of all pieces, (n,); NaN where a sample has none."""
        return self._column.values[self._places]

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Whether each sample has one, (n,)."""
        return self._column.known[self._places]

    @property
    def counts(self) -> Numbers:
        """The number of readings."""
        return self._column.counts[self._rows]

    @property
    def means(self) -> Floats:
        """The mean; NaN for a piece without readings."""
        return self._column.means[self._rows]

    @property
    def medians(self) -> Floats:
        """The median; NaN for a piece without readings."""
        return self._column.medians[self._rows]

    @property
    def upper_medians(self) -> Floats:
        """The highest value that at least half of the readings reach; NaN for a piece without readings."""
        return self._column.upper_medians[self._rows]

    @property
    def lowest(self) -> Floats:
        """The lowest reading; NaN for a piece without readings."""
        return self._column.lowest[self._rows]

    def sums(self, values: npt.NDArray[Any]) -> Floats:
        """The sum of these values, one for each of `values`, in each piece."""
        return _sums(self._table.piece_of[self._places] - self._rows.start, values, len(self.pieces))


def _sums(piece_of: Numbers, values: npt.NDArray[Any], number: int) -> Floats:
    return np.asarray(np.bincount(piece_of, weights=values, minlength=number), np.float64)
