"""Records of one subject in the order of time, and readings of one field in them."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar, overload

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.readings import Readings
from rigproof.criteria.evidence.windows import Window
from rigproof.records.rows import Rows
from rigproof.records.samples import GpuSample, HostSample


class Timed(Protocol):
    """A record with a moment and a subject."""

    @property
    def t_s(self) -> float: ...  # noqa: D102
    @property
    def subject(self) -> str: ...  # noqa: D102


Item = TypeVar("Item", bound=Timed)


class Series(Generic[Item]):
    """The records of one subject in the order of time."""

    def __init__(self, items: Iterable[Item] = ()) -> None:
        # A moment that is not a number cannot be put in order, nor into any window.
        timed = (one for one in items if one.t_s is not None and math.isfinite(one.t_s))
        self.items: Sequence[Item] = sorted(timed, key=attrgetter("t_s"))
        self._times: Sequence[float] = [item.t_s for item in self.items]

    def within(self, window: Window) -> Sequence[Item]:
        """Those inside the window, its ends included."""
        return self.items[bisect_left(self._times, window.from_s) : bisect_right(self._times, window.to_s)]


class SubjectColumns(Generic[Item]):
    """The columns of one subject, in the order of time, each made into Python values when first asked for."""

    def __init__(self, rows: Rows[Item], subject: str, times: list[float]) -> None:
        self._rows, self._subject, self.times = rows, subject, times
        self._values: dict[str, list[Any]] = {}
        self._between: dict[tuple[str, int, int], Readings] = {}

    def between(self, field: str, start: int, end: int) -> Readings:
        """Of those from one place to another that have this field."""
        key = (field, start, end)
        if key not in self._between:
            found = Readings(self.times[start:end], self.values(field)[start:end])
            if self._rows.may_lack(field):
                found = Readings.of_pairs(pair for pair in found if pair[1] is not None)
            self._between[key] = found
        return self._between[key]

    def values(self, field: str) -> list[Any]:
        """One field of all."""
        if field not in self._values:
            self._values[field] = self._rows.values(self._subject, field)
        return self._values[field]

    def finite(self, field: str) -> bool:
        """Whether all numbers of a field are finite."""
        return self._rows.finite(field)

    @cached_property
    def records(self) -> list[Item]:
        """All, made."""
        return self._rows.of(self._subject)


class Stretch(Sequence[Item]):
    """Records that are held as columns, from one place to another; made where one is asked for."""

    def __init__(self, columns: SubjectColumns[Item], start: int, end: int) -> None:
        self._columns, self._start, self._end = columns, start, end

    def readings(self, field: str) -> Readings:
        """Of those that have this field."""
        return self._columns.between(field, self._start, self._end)

    def finite(self, field: str) -> bool:
        """Whether all numbers of a field are finite, those outside of the stretch too."""
        return self._columns.finite(field)

    def told(self, fields: Sequence[str]) -> list[tuple[Any, ...]]:
        """These fields of each record."""
        found = (self._columns.values(field)[self._start : self._end] for field in fields)
        return list(zip(*found, strict=True))

    def __len__(self) -> int:
        """How many there are."""
        return self._end - self._start

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> list[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | list[Item]:
        """In the order of time."""
        return self._columns.records[self._start : self._end][place]


class ColumnSeries(Series[Item]):
    """A Series of records that are held as columns. Their times must be in order."""

    def __init__(self, rows: Rows[Item], subject: str, times: list[float]) -> None:
        self._columns, self._times = SubjectColumns(rows, subject, times), times
        self.items = Stretch(self._columns, 0, len(times))

    def within(self, window: Window) -> Sequence[Item]:
        """Those inside the window, its ends included."""
        start, end = bisect_left(self._times, window.from_s), bisect_right(self._times, window.to_s)
        return Stretch(self._columns, start, end)


def series_of(rows: Rows[Item], subject: str) -> Series[Item]:
    """The series of one subject; as columns where that is its order."""
    times = rows.moments(subject)
    if None in times or not all(map(math.isfinite, times)) or times != sorted(times):
        return Series(rows.of(subject))
    return ColumnSeries(rows, subject, times)


def values(samples: Sequence[GpuSample] | Sequence[HostSample], field: str) -> Readings:
    """Of the samples that have this field."""
    if isinstance(samples, Stretch):
        return samples.readings(field)
    read = attrgetter(field)
    pairs = ((sample.t_s, read(sample)) for sample in samples)
    return Readings.of_pairs(pair for pair in pairs if pair[1] is not None)


def told(records: Sequence[Item], *fields: str) -> list[tuple[Any, ...]]:
    """These fields (at least two) of each record, in the order of time."""
    if isinstance(records, Stretch):
        return records.told(fields)
    return list(map(attrgetter(*fields), records))


def readings(samples: Sequence[GpuSample] | Sequence[HostSample], field: str) -> Readings:
    """Of the samples that have this field. Raises NotMeasured where one is not finite."""
    found = values(samples, field)
    known = isinstance(samples, Stretch) and samples.finite(field)
    if not known and not all(map(math.isfinite, found.values)):
        raise NotMeasured(f"a reading of {field} is not a finite number")
    return found
