"""Columns of values: numbers, coded values of which few are distinct, and lists of numbers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt

from rigproof.records.fields import FieldKind, kinds_of

Floats = npt.NDArray[np.float64]
Places = slice | npt.NDArray[np.intp]


class Numbers:
    """A column of numbers; if `optional`, NaN stands for None."""

    def __init__(self, values: Floats, *, optional: bool = True) -> None:
        self.array = values
        self.optional = optional
        self.gaps = optional and bool(np.isnan(values).any())  # whether any value is None

    def plain(self, where: slice) -> list[Any]:
        """Some values as Python has them; None for a gap."""
        values: list[Any] = self.array[where].tolist()
        return [None if isnan(value) else value for value in values] if self.gaps else values

    def taken(self, order: Places) -> "Numbers":
        """The values at these places, in this order."""
        return Numbers(self.array[order], optional=self.optional)

    def joined(self, other: "Column") -> "Numbers":
        """A column of these values and those of another column behind them."""
        return Numbers(np.concatenate((self.array, floats_of(other))), optional=self.optional)


class Coded:
    """A dictionary-encoded column: `codes` index `distinct`, one of which may be None."""

    def __init__(self, codes: npt.NDArray[Any], distinct: Sequence[Any]) -> None:
        self.array, self.distinct = codes, distinct

    @classmethod
    def of(cls, values: Iterable[Any]) -> "Coded":
        """From values. True equals 1 and 1.0, but a column has one type, so values are not confused."""
        every = list(values)
        try:
            codes = {value: place for place, value in enumerate(dict.fromkeys(every))}
        except TypeError:  # mappings
            return cls._of_mappings(every)
        return cls(np.asarray([codes[value] for value in every], np.uint32), list(codes))

    @classmethod
    def _of_mappings(cls, values: Sequence[Any]) -> "Coded":
        codes: dict[Any, int] = {}
        distinct: list[Any] = []
        places = [_code(value, codes, distinct) for value in values]
        return cls(np.asarray(places, np.uint32), distinct)

    def plain(self, where: slice) -> list[Any]:
        """Some values as Python has them; None for a gap."""
        found: list[Any] = self._objects[self.array[where]].tolist()
        return found

    @cached_property
    def _objects(self) -> npt.NDArray[np.object_]:
        objects = np.empty(len(self.distinct), np.object_)
        objects[:] = self.distinct
        return objects

    @cached_property
    def gaps(self) -> bool:
        """Whether there is a None."""
        return any(value is None for value in self.distinct)

    @cached_property
    def numbers(self) -> Floats:
        """The distinct values of a column of numbers; NaN for None."""
        return np.asarray([np.nan if value is None else value for value in self.distinct], np.float64)

    def same(self, which: Callable[[Any], object]) -> npt.NDArray[np.bool_]:
        """Whether `which` accepts it, for each of the distinct values."""
        return np.asarray([bool(which(value)) for value in self.distinct], np.bool_)

    def taken(self, order: Places) -> "Coded":
        """The values at these places, in this order."""
        if len(self.distinct) == 1 and not isinstance(order, slice):
            return Coded(np.zeros(len(order), self.array.dtype), self.distinct)  # no memory until written to
        return Coded(self.array[order], self.distinct)

    def compact(self) -> "Coded":
        """This column without distinct values that no longer occur in it, as after `taken`."""
        codes, places = np.unique(self.array, return_inverse=True)
        return Coded(places.astype(np.uint32), [self.distinct[code] for code in codes.tolist()])

    def joined(self, other: "Column") -> "Coded | Numbers":
        """A column of these values and those of another column behind them."""
        if not isinstance(other, Coded):
            return Numbers(np.concatenate((floats_of(self), floats_of(other))))
        codes: dict[Any, int] = {}
        distinct: list[Any] = []
        for value in self.distinct:
            _code(value, codes, distinct)
        places = np.asarray([_code(value, codes, distinct) for value in other.distinct], np.uint32)
        behind = places[other.array] if len(places) else other.array
        return Coded(np.concatenate((self.array, behind)).astype(np.uint32), distinct)


def _code(value: Any, codes: dict[Any, int], distinct: list[Any]) -> int:
    """The place of a value among the distinct ones; a new value is added to them."""
    key = tuple(sorted(value.items())) if isinstance(value, Mapping) else value
    if key not in codes:
        codes[key] = len(distinct)
        distinct.append(value)
    return codes[key]


# The values of all lists; where each list begins, and where the last one ends; whether each is not None.
FlatLists = tuple[Coded | Numbers, npt.NDArray[np.int64], npt.NDArray[np.bool_]]


class Lists:
    """A column of lists of numbers, which `load` reads on first use."""

    gaps = True  # not known before they are read

    def __init__(self, load: Callable[[], FlatLists]) -> None:
        self._load = load
        self._order: npt.NDArray[np.intp] | None = None
        self._loaded: FlatLists | None = None

    @classmethod
    def of(cls, values: Sequence[Sequence[float] | None]) -> "Lists":
        """A column of these lists."""
        flat = np.asarray([one for value in values for one in value or ()], np.float64)
        bounds = np.concatenate(([0], np.cumsum([len(value or ()) for value in values]))).astype(np.int64)
        known = np.asarray([value is not None for value in values], np.bool_)
        return cls(lambda: (Numbers(flat), bounds, known))

    def plain(self, where: slice) -> list[Any]:
        """Some lists as tuples; None for a gap."""
        return [None if one is None else tuple(one.tolist()) for one in self.arrays(where)]

    def arrays(self, where: slice) -> list[Floats | None]:
        """Some lists as arrays; None for a gap."""
        values, offsets, known = self._read()
        places = np.arange(len(known))[where] if self._order is None else self._order[where]
        edges = zip(offsets[places].tolist(), offsets[places + 1].tolist(), strict=True)
        lists = [values.array[begin:end] for begin, end in edges]
        if isinstance(values, Coded) and lists:
            decoded = values.numbers[np.concatenate(lists)]
            lists = [decoded[begin:end] for begin, end in pairwise(accumulate(map(len, lists), initial=0))]
        return [
            one if is_known else None for one, is_known in zip(lists, known[places].tolist(), strict=True)
        ]

    def _read(self) -> FlatLists:
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded

    def taken(self, order: Places) -> "Lists":
        """The lists at these places, in this order; this reads nothing."""
        other = Lists(self._load)
        other._loaded = self._loaded
        if isinstance(order, slice):
            order = np.arange(len(self))[order]
        other._order = order if self._order is None else self._order[order]
        return other

    def joined(self, other: "Column") -> "Lists":
        """A column of these lists and those of another column behind them."""
        behind = other.plain(slice(None)) if isinstance(other, Lists) else []
        return Lists.of([*self.plain(slice(None)), *behind])

    def __len__(self) -> int:
        """The number of lists."""
        return len(self._read()[2] if self._order is None else self._order)


Column = Numbers | Coded | Lists


def floats_of(column: Column) -> Floats:
    """A column of numbers, NaN for None. TypeError if it has lists."""
    return floats_at(column, slice(None))


def floats_at(column: Column, places: Places) -> Floats:
    """Some values of a column of numbers, NaN for None. TypeError if it has lists."""
    if isinstance(column, Numbers):
        return column.array[places]
    if isinstance(column, Lists):
        raise TypeError("the column has lists, not numbers")
    return column.numbers[column.array[places]] if len(column.distinct) else np.zeros(0)


def column_of(values: Sequence[Any], kind: FieldKind) -> Column:
    """Values of one field as a column."""
    if kind.kind is float:
        return Numbers(np.asarray(values, np.float64), optional=kind.optional)
    return Lists.of(values) if kind.kind is tuple else Coded.of(values)


def columns_of(record: type, records: Sequence[Any]) -> dict[str, Column]:
    """A column for each field, in the order of the records."""
    return {
        kind.name: column_of([getattr(one, kind.name) for one in records], kind) for kind in kinds_of(record)
    }
