"""Many records of one kind as columns, grouped by subject: what a large recording holds in place of objects.

A record costs some 300 bytes as an object and 60 as a row. Rows look like the list of the records, in the
order in which they came; a record is made when it is asked for. `of` makes those of one subject, `moments`
and `values` give its columns without making any.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from itertools import pairwise
from math import isnan
from typing import Any, Generic, TypeVar, overload

import numpy as np
import numpy.typing as npt

RecordType = TypeVar("RecordType")
Floats = npt.NDArray[np.float64]


class Numbers:
    """A column of numbers; NaN stands for None."""

    def __init__(self, values: Floats) -> None:
        self.array = values
        self.gaps = bool(np.isnan(values).any())  # whether one of them is None

    def plain(self, where: slice) -> list[Any]:
        """As Python values."""
        values: list[Any] = self.array[where].tolist()
        return [None if isnan(value) else value for value in values] if self.gaps else values

    def taken(self, order: npt.NDArray[np.intp]) -> "Numbers":
        """The same, in another order."""
        return Numbers(self.array[order])


class Words:
    """A column of few distinct values: `codes` are places in `words`, which may hold None."""

    def __init__(self, codes: npt.NDArray[Any], words: Sequence[Any]) -> None:
        self.array, self.words = codes, words

    def plain(self, where: slice) -> list[Any]:
        """As Python values."""
        found: list[Any] = self._objects[self.array[where]].tolist()
        return found

    @cached_property
    def _objects(self) -> npt.NDArray[np.object_]:
        objects = np.empty(len(self.words), np.object_)
        objects[:] = self.words
        return objects

    @cached_property
    def gaps(self) -> bool:
        """Whether one of them is None."""
        return any(word is None for word in self.words)

    @cached_property
    def numbers(self) -> Floats:
        """The words as numbers, where they are; NaN for None."""
        return np.asarray([np.nan if word is None else word for word in self.words], np.float64)

    def taken(self, order: npt.NDArray[np.intp]) -> "Words":
        """The same, in another order."""
        return Words(self.array[order], self.words)


class Lists:
    """Lists of numbers, read when first asked for: `load` gives values, where each begins, which are."""

    gaps = True  # who knows, before they are read

    def __init__(
        self, load: Callable[[], tuple[Floats, npt.NDArray[np.int64], npt.NDArray[np.bool_]]]
    ) -> None:
        self._load = load
        self._order: npt.NDArray[np.intp] | None = None
        self._held: tuple[Floats, npt.NDArray[np.int64], npt.NDArray[np.bool_]] | None = None

    def plain(self, where: slice) -> list[Any]:
        """As tuples, or None."""
        return [None if one is None else tuple(one.tolist()) for one in self.arrays(where)]

    def arrays(self, where: slice) -> list[Floats | None]:
        """As arrays, or None."""
        if self._held is None:
            self._held = self._load()
        values, offsets, known = self._held
        places = range(len(known))[where] if self._order is None else self._order[where].tolist()
        return [values[offsets[place] : offsets[place + 1]] if known[place] else None for place in places]

    def let_go(self) -> None:
        """Forget what was read; it is read again when it is asked for."""
        self._held = None

    def taken(self, order: npt.NDArray[np.intp]) -> "Lists":
        """The same, in another order; nothing is read for it."""
        other = Lists(self._load)
        other._held = self._held
        other._order = order if self._order is None else self._order[order]
        return other


Column = Numbers | Words | Lists


class Rows(Sequence[RecordType], Generic[RecordType]):
    """The records. `columns` has one for each field of the record; `subject` is of Words.

    They are held in another order: grouped by subject, within one as they came.
    """

    def __init__(self, record: type[RecordType], columns: Mapping[str, Column]) -> None:
        self.record = record
        self._names = tuple(field.name for field in fields(record))  # type: ignore[arg-type]
        subjects = columns["subject"]
        if not isinstance(subjects, Words):
            raise TypeError("subjects are words")
        self._order = np.argsort(subjects.array, kind="stable")  # where each stood
        self.columns = {name: columns[name].taken(self._order) for name in self._names}
        self.added: list[RecordType] = []  # behind those of `columns`
        codes = self.columns["subject"].array  # type: ignore[union-attr]
        bounds = [*np.flatnonzero(np.diff(codes, prepend=-1)).tolist(), len(codes)]
        self._groups = {subjects.words[codes[start]]: slice(start, end) for start, end in pairwise(bounds)}

    def subjects(self) -> list[str]:
        """Those that have a row."""
        return [*dict.fromkeys((*self._groups, *(one.subject for one in self.added)))]  # type: ignore[attr-defined]

    def column(self, name: str) -> Floats:
        """A column of numbers, all subjects: NaN for None. Records that were added since are not in it."""
        column = self.columns[name]
        if isinstance(column, Words):
            return np.asarray(column.numbers[column.array])
        if isinstance(column, Lists):
            raise TypeError(f"{name} holds lists")
        floats: Floats = column.array
        return floats

    def places(self, subject: str) -> slice:
        """Where the rows of one subject are in `columns`."""
        return self._groups.get(subject, slice(0, 0))

    def of(self, subject: str, *, lists: bool = True) -> list[RecordType]:
        """The records of one subject, in the order in which they came; without `lists` those are None."""
        made = self._made(self._groups.get(subject, slice(0, 0)), lists=lists)
        return made + [one for one in self.added if one.subject == subject] if self.added else made  # type: ignore[attr-defined]

    def last_s(self) -> float | None:
        """`t_s` of the last one that came, without making it."""
        if self.added:
            return self.added[-1].t_s  # type: ignore[attr-defined, no-any-return]
        place = int(np.argmax(self._order)) if len(self._order) else None
        return None if place is None else self.columns["t_s"].plain(slice(place, place + 1))[0]

    def moments(self, subject: str) -> list[float] | None:
        """`t_s` of its rows; None where records were added since, so that columns are not all."""
        return None if self.added else self.values(subject, "t_s")

    def values(self, subject: str, name: str) -> list[Any]:
        """One field of its rows, in the order of `moments`; lists as arrays."""
        column, where = self.columns[name], self._groups.get(subject, slice(0, 0))
        return column.arrays(where) if isinstance(column, Lists) else column.plain(where)

    def may_lack(self, name: str) -> bool:
        """Whether some record has None in that field."""
        return self.columns[name].gaps

    def let_go(self) -> None:
        """Forget the lists that were read, which may be hundreds of MiB; the file has them."""
        for column in self.columns.values():
            if isinstance(column, Lists):
                column.let_go()

    def append(self, record: RecordType) -> None:
        """Put one record behind the others."""
        self.added.append(record)

    def extend(self, records: Sequence[RecordType]) -> None:
        """Put records behind the others."""
        self.added.extend(records)

    def __len__(self) -> int:
        """How many records there are."""
        return len(self._order) + len(self.added)

    def __iter__(self) -> Iterator[RecordType]:
        """All, in the order in which they came; makes all of them."""
        made = self._made(slice(None))
        ordered: list[Any] = [None] * len(made)
        for place, one in zip(self._order.tolist(), made, strict=True):
            ordered[place] = one
        yield from ordered
        yield from self.added

    @overload
    def __getitem__(self, place: int) -> RecordType: ...
    @overload
    def __getitem__(self, place: slice) -> list[RecordType]: ...
    def __getitem__(self, place: int | slice) -> RecordType | list[RecordType]:
        """By the order in which they came; a list for a slice."""
        if isinstance(place, slice):
            return [self[one] for one in range(len(self))[place]]
        place = range(len(self))[place]
        if place >= len(self._order):
            return self.added[place - len(self._order)]
        (row,) = np.flatnonzero(self._order == place).tolist()
        return self._made(slice(row, row + 1))[0]

    def __eq__(self, other: object) -> bool:
        """Equal to any list of the same records."""
        if not isinstance(other, Sequence) or len(other) != len(self):
            return False
        return all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def _made(self, where: slice, *, lists: bool = True) -> list[RecordType]:
        nothing = [None] * len(range(len(self._order))[where])
        columns = [
            nothing if isinstance(column, Lists) and not lists else column.plain(where)
            for column in (self.columns[name] for name in self._names)
        ]
        return [self.record(*row) for row in zip(*columns, strict=True)]
