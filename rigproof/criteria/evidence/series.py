"""Records of one subject in the order of time, and readings of one field in them."""

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar, overload

import numpy as np

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.readings import Floats, Readings
from rigproof.criteria.evidence.windows import Window
from rigproof.records.rows import Rows


class Timed(Protocol):
    """A record with a moment and a subject."""

    @property
    def t_s(self) -> float: ...
    @property
    def subject(self) -> str: ...


Item = TypeVar("Item", bound=Timed)


class Series(Generic[Item]):
    """The records of one subject in the order of time, with each field as a column, made on first use."""

    def __init__(self, records: Iterable[Item] = ()) -> None:
        # A time that is not finite cannot be sorted, and lies in no window.
        timed = (one for one in records if one.t_s is not None and math.isfinite(one.t_s))
        self.records: Sequence[Item] = sorted(timed, key=attrgetter("t_s"))
        self._begin(np.asarray([one.t_s for one in self.records], np.float64))

    def _begin(self, times_s: Floats) -> None:
        self.times_s = times_s
        self._places: dict[Window, slice] = {}
        self._columns: dict[str, list[Any]] = {}
        self._numbers: dict[str, Floats] = {}
        self._finite: dict[str, bool] = {}
        self._recorded: dict[tuple[str, int, int], Readings] = {}

    @property
    def items(self) -> "Stretch[Item]":
        """All records. Not cached: it refers back, and garbage collection is off while a rig is judged."""
        return Stretch(self, slice(0, len(self.times_s)))

    @cached_property
    def _sorted_s(self) -> list[float]:
        """To look up one moment, faster than an array."""
        found: list[float] = self.times_s.tolist()
        return found

    def places(self, window: Window) -> slice:
        """The places of the records inside the window, its ends included."""
        if window not in self._places:
            first, end = bisect_left(self._sorted_s, window.from_s), bisect_right(self._sorted_s, window.to_s)
            self._places[window] = slice(first, end)
        return self._places[window]

    def within(self, window: Window) -> "Stretch[Item]":
        """The records inside the window, its ends included."""
        return Stretch(self, self.places(window))

    def column(self, field: str) -> list[Any]:
        """One field of all records; None if a record lacks it."""
        if field not in self._columns:
            self._columns[field] = self._read(field)
        return self._columns[field]

    def numbers(self, field: str) -> Floats:
        """A field of numbers of all records, (n,); NaN if a record lacks it."""
        if field not in self._numbers:
            self._numbers[field] = self._read_numbers(field)
        return self._numbers[field]

    def recorded(self, field: str, places: slice) -> Readings:
        """The values of a field of numbers, without records that lack it."""
        key = (field, places.start, places.stop)
        if key not in self._recorded:
            times_s, values = self.times_s[places], self.numbers(field)[places]
            if not self.finite(field):
                known = ~np.isnan(values)
                times_s, values = times_s[known], values[known]
            self._recorded[key] = Readings(times_s, values)
        return self._recorded[key]

    def readings(self, field: str, places: slice) -> Readings:
        """The same. Raises NotMeasured if a value is infinite."""
        found = self.recorded(field, places)
        self.require_finite(field, found.values)
        return found

    def require_finite(self, field: str, values: Floats) -> None:
        """NotMeasured if one of these values of a field is infinite."""
        if not self.finite(field) and np.isinf(values).any():
            raise NotMeasured(f"a reading of {field} is not a finite number")

    def finite(self, field: str) -> bool:
        """Whether each record has a finite number in that field."""
        if field not in self._finite:
            self._finite[field] = self._all_finite(field)
        return self._finite[field]

    def _read(self, field: str) -> list[Any]:
        return list(map(attrgetter(field), self.records))

    def _read_numbers(self, field: str) -> Floats:
        return np.asarray([np.nan if one is None else one for one in self._read(field)], np.float64)

    def _all_finite(self, field: str) -> bool:
        return bool(np.isfinite(self.numbers(field)).all())


class ColumnSeries(Series[Item]):
    """A Series of records that are stored as columns. Their times must be in order."""

    def __init__(self, rows: Rows[Item], subject: str, times_s: Floats) -> None:
        self._rows, self._subject = rows, subject
        self._begin(times_s)

    @cached_property
    def records(self) -> Sequence[Item]:  # type: ignore[override]
        """All records, made on first use."""
        return self._rows.of(self._subject)

    def _read(self, field: str) -> list[Any]:
        return self._rows.values(self._subject, field)

    def _read_numbers(self, field: str) -> Floats:
        return self._rows.numbers(self._subject, field)

    def _all_finite(self, field: str) -> bool:
        return self._rows.finite(field) or super()._all_finite(field)  # most fields, for all subjects at once


class Stretch(Sequence[Item]):
    """A contiguous part of a series; its records are made only when needed."""

    def __init__(self, series: Series[Item], places: slice) -> None:
        self._series, self._places = series, places

    def readings(self, field: str) -> Readings:
        """The values of a field of numbers, without records that lack it. NotMeasured if one is infinite."""
        return self._series.readings(field, self._places)

    def recorded(self, field: str) -> Readings:
        """The same, infinite or not."""
        return self._series.recorded(field, self._places)

    @property
    def times_s(self) -> Floats:
        """When each was taken, run time."""
        return self._series.times_s[self._places]

    def fields(self, *names: str) -> list[tuple[Any, ...]]:
        """These fields of each record."""
        return list(zip(*(self._series.column(name)[self._places] for name in names), strict=True))

    def __len__(self) -> int:
        """The number of records."""
        found: int = self._places.stop - self._places.start
        return found

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> "Stretch[Item]": ...
    def __getitem__(self, place: int | slice) -> "Item | Stretch[Item]":
        """In the order of time; a slice must be contiguous."""
        places = range(self._places.start, self._places.stop)[place]
        if isinstance(places, int):
            return self._series.records[places]
        assert places.step == 1
        return Stretch(self._series, slice(places.start, places.stop))


def series_of(rows: Rows[Item], subject: str) -> Series[Item]:
    """The series of one subject; as columns if its rows are in the order of time."""
    times_s = rows.numbers(subject, "t_s")
    if not np.isfinite(times_s).all() or (times_s[1:] < times_s[:-1]).any():
        return Series(rows.of(subject))
    return ColumnSeries(rows, subject, times_s)


def grouped(records: Sequence[Item]) -> dict[str, list[Item]]:
    """The records by subject, in the order recorded."""
    groups: dict[str, list[Item]] = defaultdict(list)
    for one in records:
        groups[one.subject].append(one)
    return groups
