"""Records of one subject in the order of time, and the readings of one field in them."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from typing import Any, Protocol, TypeVar, overload

import numpy as np
import numpy.typing as npt

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.windows import Window
from rigproof.records.columns import Column, floats_at
from rigproof.records.rows import Rows, records_at

Floats = npt.NDArray[np.float64]
FEWEST = 10  # readings that a rule needs; few enough for a rig that is sampled once a second


class Readings:
    """Readings in the order of time: `times_s` (n,), run time, and `values` (n,); none of them is NaN."""

    __slots__ = ("times_s", "values")

    def __init__(self, times_s: Floats, values: Floats) -> None:
        self.times_s, self.values = times_s, values

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[float, float]]) -> "Readings":
        """From pairs of run time and value that are already in the order of time."""
        table = np.asarray([*pairs], np.float64).reshape(-1, 2)
        return cls(table[:, 0], table[:, 1])

    @property
    def mean(self) -> float:
        """Of all values; NaN if there is none."""
        return float(self.values.sum() / len(self)) if len(self) else float("nan")

    @property
    def highest(self) -> float:
        """Of all values; minus infinity if there is none."""
        return float(self.values.max(initial=-np.inf))

    @property
    def lowest(self) -> float:
        """Of all values; infinity if there is none."""
        return float(self.values.min(initial=np.inf))

    def __len__(self) -> int:
        """The number of readings."""
        return len(self.values)

    def __iter__(self) -> Iterator[tuple[float, float]]:
        """The pairs of run time and value."""
        return zip(self.times_s.tolist(), self.values.tolist(), strict=True)

    def by_slice(self, slices: Sequence[Window]) -> list[list[float]]:
        """The values in each of the adjacent slices."""
        if not slices:
            return []
        edges_s = [*(one.from_s for one in slices), slices[-1].to_s]
        bounds = np.searchsorted(self.times_s, edges_s).tolist()
        values = self.values.tolist()
        return [values[start:end] for start, end in pairwise(bounds)]

    def within(self, from_s: float, to_s: float) -> "Readings":
        """Those from one moment to another, both included."""
        first, end = self.times_s.searchsorted(from_s), self.times_s.searchsorted(to_s, "right")
        return Readings(self.times_s[first:end], self.values[first:end])

    def repeated(self, shortest_s: float) -> list[tuple[int, int]]:
        """The first and the last place of each value that was read three times in a row or more, so long."""
        edges = np.flatnonzero(np.diff(self.values, prepend=np.nan, append=np.nan)).tolist()
        return [
            (first, end - 1)
            for first, end in pairwise(edges)
            if end - first >= 3 and self.times_s[end - 1] - self.times_s[first] >= shortest_s
        ]


class Timed(Protocol):
    """A record with a moment and a subject."""

    @property
    def t_s(self) -> float: ...
    @property
    def subject(self) -> str: ...


Item = TypeVar("Item", bound=Timed)


class Series(Sequence[Item]):
    """Records of one subject in the order of time, or a contiguous part of them.

    Their fields stay columns; a record is made on access.
    """

    def __init__(self, record: type[Item], columns: Mapping[str, Column], places: slice) -> None:
        self._record, self._columns, self._places = record, columns, places

    @classmethod
    def of(cls, rows: Rows[Item], subject: str) -> "Series[Item]":
        """The records of one subject whose moment is finite: another one lies in no window."""
        record = rows.record
        assert record is not None
        times_s = rows.numbers(subject, "t_s")
        if not np.isfinite(times_s).all() or (times_s[1:] < times_s[:-1]).any():
            timed = [one for one, known in zip(rows.of(subject), np.isfinite(times_s), strict=True) if known]
            rows = Rows.of_records(record, sorted(timed, key=attrgetter("t_s")))
        return cls(record, rows.columns, rows.places(subject))

    @cached_property
    def times_s(self) -> Floats:
        """When each was taken, run time."""
        return self.numbers("t_s")

    @cached_property
    def _sorted_s(self) -> list[float]:
        """To look up one moment, faster than an array."""
        found: list[float] = self.times_s.tolist()
        return found

    def places(self, window: Window) -> slice:
        """The places of the records inside the window, its ends included."""
        return slice(bisect_left(self._sorted_s, window.from_s), bisect_right(self._sorted_s, window.to_s))

    def within(self, window: Window) -> "Series[Item]":
        """The records inside the window, its ends included."""
        return self[self.places(window)]

    def column(self, field: str) -> list[Any]:
        """One field of all records; None if a record lacks it."""
        return self._columns[field].plain(self._places)

    def numbers(self, field: str) -> Floats:
        """A field of numbers of all records, (n,); NaN if a record lacks it."""
        return floats_at(self._columns[field], self._places)

    def fields(self, *names: str) -> list[tuple[Any, ...]]:
        """These fields of each record."""
        return list(zip(*map(self.column, names), strict=True))

    def recorded(self, field: str) -> Readings:
        """The values of a field of numbers, without records that lack it."""
        times_s, values = self.times_s, self.numbers(field)
        known = ~np.isnan(values)
        return Readings(times_s, values) if known.all() else Readings(times_s[known], values[known])

    def readings(self, field: str) -> Readings:
        """The values of a field of numbers, without records that lack it. NotMeasured if one is infinite."""
        found = self.recorded(field)
        require_finite(field, found.values)
        return found

    def __len__(self) -> int:
        """The number of records."""
        found: int = self._places.stop - self._places.start
        return found

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> "Series[Item]": ...
    def __getitem__(self, place: int | slice) -> "Item | Series[Item]":
        """In the order of time; a slice must be contiguous."""
        places = range(self._places.start, self._places.stop)[place]
        if isinstance(places, int):
            return records_at(self._record, self._columns, slice(places, places + 1))[0]
        assert places.step == 1
        return Series(self._record, self._columns, slice(places.start, places.stop))


def require_finite(field: str, values: Floats) -> None:
    """NotMeasured if one of these values of a field is infinite."""
    if np.isinf(values).any():
        raise NotMeasured(f"a reading of {field} is not a finite number")


def grouped(records: Iterable[Item]) -> dict[str, list[Item]]:
    """The records by subject, in the order recorded."""
    groups: dict[str, list[Item]] = defaultdict(list)
    for one in records:
        groups[one.subject].append(one)
    return groups
