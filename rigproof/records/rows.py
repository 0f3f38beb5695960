"""Many records of one type as columns, grouped by subject: how a Recording stores bulk data.

A record takes some 300 bytes as an object and 60 as a row. Rows behave like the list of the records, in the
order in which they came; a record is made on access. `of` makes those of one subject, `moments` and `values`
give its columns without making any. Appended records are kept as objects until there are enough of them, or
until columns are needed.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Generic, Self, TypeVar, cast, overload

import numpy as np
import numpy.typing as npt

from rigproof.records.columns import (
    Coded,
    Column,
    Floats,
    Numbers,
    column_of,
    columns_of,
    floats_at,
    floats_of,
)
from rigproof.records.fields import LABELS, kinds_of

RecordType = TypeVar("RecordType")
Other = TypeVar("Other")

# Appended records become columns once there are WAITING of them, and WAITING_SHARE as many as are columns
# already, so that each row is only moved a few times.
WAITING = 10_000
WAITING_SHARE = 0.25
_GROUPING = threading.RLock()  # reentrant: a signal handler may append in the middle of it


class TableError(ValueError):
    """A table without the expected columns; the message names the column and what is wrong with it."""


class Rows(Sequence[RecordType], Generic[RecordType]):
    """The records. `columns` has one column for each field of the record; `subject` is a Coded column.

    Rows are stored grouped by subject, and within each group in the order in which they came. `record` is
    None for a table whose record type is not known yet (`typed`); `kinds` then has its columns' types.
    """

    def __init__(
        self,
        record: type[RecordType] | None,
        columns: Mapping[str, Column] | None = None,
        kinds: Mapping[str, type] | None = None,
    ) -> None:
        self.record = record
        self.kinds = dict(kinds or {})
        self._waiting: list[RecordType] = []  # appended after those in the columns
        if columns is None:
            assert record is not None
            columns = columns_of(record, [])
        subjects = columns["subject"]
        if not isinstance(subjects, Coded):
            raise TypeError("the subjects are not a Coded column")
        self._ungrouped: Mapping[str, Column] | None = columns  # in the order they came, until grouped
        self._count = len(subjects.array)  # of the rows in columns

    @classmethod
    def of_records(cls, record: type[RecordType], records: Iterable[RecordType]) -> "Rows[RecordType]":
        """Rows that hold these records."""
        found = cls(record)
        found.extend(records)
        return found

    def typed(self, record: type[Other]) -> "Rows[Other]":
        """These rows as records of that type. TableError if the columns do not fit its fields."""
        return Rows(record, _fitting(self.kinds, self._in_order(), record))

    def required(self, *names: str) -> None:
        """TableError if a row lacks one of these fields."""
        for name in names:
            if self._in_order()[name].gaps:
                raise TableError(f"a row has no {name}")

    # As a sequence

    def append(self, record: RecordType) -> None:
        """Append one record."""
        self._waiting.append(record)
        if len(self._waiting) >= max(WAITING, WAITING_SHARE * self._count):
            self._move_waiting()

    def extend(self, records: Iterable[RecordType]) -> None:
        """Append records."""
        for record in records:
            self.append(record)

    def __len__(self) -> int:
        """The number of records."""
        return self._count + len(self._waiting)

    def __iter__(self) -> Iterator[RecordType]:
        """All records, in the order in which they came; makes all of them."""
        self._move_waiting()
        made = self._made(slice(None))
        return iter([made[row] for row in self._rows.tolist()])

    @overload
    def __getitem__(self, place: int) -> RecordType: ...
    @overload
    def __getitem__(self, place: slice) -> list[RecordType]: ...
    def __getitem__(self, place: int | slice) -> RecordType | list[RecordType]:
        """The record at a place in the order in which they came; a list of them for a slice."""
        if isinstance(place, slice):
            return [self[one] for one in range(len(self))[place]]
        count, waiting = self._count, self._waiting
        place = range(count + len(waiting))[place]
        if place >= count:
            return waiting[place - count]
        self._group()
        row = int(self._rows[place])
        return self._made(slice(row, row + 1))[0]

    def __eq__(self, other: object) -> bool:
        """Equal to any sequence of the same records."""
        if not isinstance(other, Sequence) or len(other) != len(self):
            return False
        if isinstance(other, Rows) and (self.record is None or other.record is None):
            known = self.record or other.record
            return known is None or list(_as(self, known)) == list(_as(other, known))
        return all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __copy__(self) -> Self:
        """A copy that grows independently; the rows so far are shared."""
        self._move_waiting()
        found = self.__class__.__new__(self.__class__)
        vars(found).update(vars(self), _waiting=[])
        return found

    # As columns

    @property
    def columns(self) -> Mapping[str, Column]:
        """All columns, grouped by subject."""
        self._move_waiting()
        return self._columns

    def subjects(self) -> list[str]:
        """The subjects that have a row."""
        self._move_waiting()
        return list(self._groups)

    def column(self, name: str) -> Floats:
        """A column of numbers, all subjects: NaN for None."""
        return floats_of(self.columns[name])

    def places(self, subject: str) -> slice:
        """Where the rows of one subject are in `columns`."""
        self._move_waiting()
        return self._groups.get(subject, slice(0, 0))

    def of(self, subject: str) -> list[RecordType]:
        """The records of one subject, in the order in which they came."""
        return self._made(self.places(subject))

    def only(self, subjects: Iterable[str]) -> "Rows[RecordType]":
        """The rows of these subjects."""
        self._move_waiting()
        chosen = [self._groups[one] for one in subjects if one in self._groups]
        rows = np.concatenate([np.zeros(0, np.intp), *(np.arange(one.start, one.stop) for one in chosen)])
        rows = rows[np.argsort(self._order[rows], kind="stable")]
        return Rows(self.record, self._taken(rows), self.kinds)

    def in_order_of_time(self, subject: str) -> "Rows[RecordType]":
        """The rows of one subject whose moment is finite: another one lies in no window."""
        where = self.places(subject)  # first: it may move waiting records into the columns
        times_s = floats_at(self._columns["t_s"], where)
        order = np.argsort(times_s, kind="stable")
        return Rows(self.record, self._taken(where.start + order[np.isfinite(times_s[order])]), self.kinds)

    def between(
        self, from_s: float, to_s: float, stages: Mapping[str, tuple[float, float]] | None = None
    ) -> "Rows[RecordType]":
        """The rows from a moment on and before another one, and those without a valid time.

        `stages`: other moments for the rows of these stages.
        """
        moments, stage = self.column("t_s"), self.columns.get("stage")
        begins_s, ends_s = np.asarray(from_s), np.asarray(to_s)
        if stages and isinstance(stage, Coded) and len(stage.array):
            spans = np.asarray([stages.get(one, (from_s, to_s)) for one in stage.distinct])
            begins_s, ends_s = spans[stage.array].T
        (rows,) = (~((moments < begins_s) | (moments >= ends_s))).nonzero()
        rows = rows[np.argsort(self._order[rows], kind="stable")]
        return Rows(self.record, self._taken(rows), self.kinds)

    def since(self, t_s: float) -> list[RecordType]:
        """The records from a moment on, in the order in which they came; waiting ones stay objects."""
        with _GROUPING:
            self._group()
            waiting = self._waiting[:]
            (rows,) = (floats_of(self._columns["t_s"]) >= t_s).nonzero()
            rows = rows[np.argsort(self._order[rows], kind="stable")]
            made = [one for row in rows.tolist() for one in self._made(slice(row, row + 1))]
        return made + [one for one in waiting if one.t_s >= t_s]  # type: ignore[attr-defined]

    def last_s(self) -> float | None:
        """The latest finite `t_s`."""
        moments = self.column("t_s")
        moments = moments[np.isfinite(moments)]
        return float(moments.max()) if len(moments) else None

    def numbers(self, subject: str, name: str) -> Floats:
        """A field of numbers of the subject's rows, in the order in which they came: NaN for None."""
        where = self.places(subject)  # first: it may move waiting records into the columns
        return floats_at(self._columns[name], where)

    def fields(self, *names: str, where: slice = slice(None)) -> list[tuple[Any, ...]]:
        """These fields of some rows, grouped by subject; None for what a record lacks."""
        return list(zip(*(self.columns[name].plain(where) for name in names), strict=True))

    def as_they_came(self) -> tuple[Mapping[str, Column], npt.NDArray[np.intp]]:
        """The columns, and the row of each record in them, by the order in which the records came."""
        self._move_waiting()
        return self._columns, self._rows

    def _in_order(self) -> Mapping[str, Column]:
        if self._ungrouped is not None and not self._waiting:
            return self._ungrouped
        columns, rows = self.as_they_came()
        return {name: column.taken(rows) for name, column in columns.items()}

    def _taken(self, rows: npt.NDArray[np.intp]) -> dict[str, Column]:
        return {name: column.taken(rows) for name, column in self._columns.items()}

    def _move_waiting(self) -> None:
        """Move waiting records into the columns. Records appended during this keep waiting."""
        if self._waiting:
            with _GROUPING:
                if records := self._waiting[:]:
                    assert self.record is not None
                    self._group()
                    added = columns_of(self.record, records)
                    joined = {name: column.joined(added[name]) for name, column in self._columns.items()}
                    positions = np.arange(self._count, self._count + len(records))
                    self._set_groups(joined, np.concatenate((self._order, positions)))
                    del self._waiting[: len(records)]
        self._group()

    def _group(self) -> None:
        if self._ungrouped is not None:
            with _GROUPING:
                if self._ungrouped is not None:
                    self._set_groups(self._ungrouped)

    def _set_groups(
        self, columns: Mapping[str, Column], positions: npt.NDArray[np.intp] | None = None
    ) -> None:
        """Group columns by subject; `positions` has each row's place in the order in which records came.

        Without it, rows are in that order.
        """
        subjects = columns["subject"]
        assert isinstance(subjects, Coded)
        order = np.argsort(subjects.array, kind="stable")
        codes = subjects.array[order]
        begins = [0, *(np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist()] if len(codes) else []
        self._groups = {
            subjects.distinct[codes[start]]: slice(start, end)
            for start, end in pairwise([*begins, len(codes)])
        }
        self._columns: Mapping[str, Column] = {name: column.taken(order) for name, column in columns.items()}
        positions = order if positions is None else positions[order]
        self._order = positions.astype(np.uint32)  # far fewer than 2**32 rows
        self._inverse: npt.NDArray[np.intp] | None = None
        self._count, self._ungrouped = len(positions), None

    @property
    def _rows(self) -> npt.NDArray[np.intp]:
        """The row of each record, by the order in which they came."""
        if self._inverse is None:
            self._inverse = np.argsort(self._order, kind="stable")
        return self._inverse

    def _made(self, where: slice) -> list[RecordType]:
        assert self.record is not None
        return records_at(self.record, self._columns, where)


def records_at(record: type[Other], columns: Mapping[str, Column], where: slice) -> list[Other]:
    """The records of some rows."""
    plain = [columns[kind.name].plain(where) for kind in kinds_of(cast("type", record))]
    return [record(*row) for row in zip(*plain, strict=True)]


def _as(rows: Rows[Any], record: type) -> Rows[Any]:
    return rows if rows.record is not None else rows.typed(record)


def _fitting(kinds: Mapping[str, type], columns: Mapping[str, Column], record: type) -> dict[str, Column]:
    """The columns of a table as those of a record type; a field that may be None may have no column.

    TableError if they do not fit.
    """
    found: dict[str, Column] = {}
    subjects = columns["subject"]
    assert isinstance(subjects, Coded)
    for one in kinds_of(record):
        if one.kind is dict:
            found[one.name] = _labels(kinds, columns)
            continue
        held = kinds.get(one.name)
        if held is None and one.optional:  # an earlier version's, which had no such sensor
            found[one.name] = column_of([None] * len(subjects.array), one)
            continue
        if held is not one.kind:
            holds = "is missing" if held is None else f"holds {held.__name__}, not {one.kind.__name__}"
            raise TableError(f"column {one.name} {holds}")
        column = columns[one.name]
        if isinstance(column, Numbers):
            column = Numbers(column.array, optional=True)
        elif isinstance(column, Coded) and not len(column.array):
            column = Coded.of(())
        if not one.optional and column.gaps:
            raise TableError(f"a row has no {one.name}")
        if one.choices and isinstance(column, Coded):
            strange = [value for value in column.distinct if value is not None and value not in one.choices]
            if strange:
                raise TableError(f"{one.name} = {strange[0]!a:.40} is not one of {', '.join(one.choices)}")
        found[one.name] = column
    return found


def _labels(kinds: Mapping[str, type], columns: Mapping[str, Column]) -> Coded:
    """One column of labels from one for each label. TableError if one has neither texts nor integers."""
    names = [name for name in columns if name.startswith(f"{LABELS}.")]
    count = len(next(iter(columns.values())).array)  # type: ignore[union-attr]
    together = np.zeros(count, np.int64)
    distinct: list[dict[str, Any]] = [{}]
    for name in names:
        column = columns[name]
        if kinds[name] not in (str, int) or not isinstance(column, Coded):
            raise TableError(f"column {name} holds {kinds[name].__name__}, which is not a type of label")
        label = name.partition(".")[2]
        number = max(1, len(column.distinct))
        pairs, together = np.unique(together * number + column.array, return_inverse=True)
        distinct = [
            distinct[place] | ({} if column.distinct[code] is None else {label: column.distinct[code]})
            for place, code in (divmod(pair, number) for pair in pairs.tolist())
        ]
    return Coded(together.astype(np.uint32), distinct)
