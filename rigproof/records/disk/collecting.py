"""Between Arrow and Rows: Arrow arrays become columns that are as compact as possible, and back."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rigproof.records.columns import Coded, Column, Floats, Lists, Numbers

if TYPE_CHECKING:
    import pyarrow as pa

# Floats are held as codes while they repeat: up to as many distinct values as two bytes can number, and up to
# a quarter of the values or FEW, whichever is more. Otherwise they are held as they are.
DISTINCT_MAX = 2**16 - 1
FEW = 4096
# Values that are looked at first, the first ones and some of all: to count the distinct ones among millions
# takes seconds.
PROBED = 2**17


@dataclass(frozen=True, slots=True)
class Source:
    """A table's columns by name; one of lists in pieces."""

    column: "Callable[[str], pa.ChunkedArray]"
    lists: "Callable[[str], Iterator[pa.ChunkedArray]]"


class Collected:
    """Numbers that come piece by piece, held as codes of two bytes while few are distinct."""

    def __init__(self) -> None:
        self._pieces: list[npt.NDArray[np.float64 | np.uint16]] = []
        # By a number's bits: -0.0 is not 0.0 here, and NaN is itself. None once there are too many.
        self._codes: dict[int, int] | None = {}

    def add(self, values: Floats) -> None:
        """Append these."""
        codes = self._coded(values)
        self._pieces.append(values if codes is None else codes)

    def column(self) -> Coded | Numbers:
        """All of them."""
        if self._codes is None:
            return Numbers(np.concatenate(self._pieces))
        return Coded(np.concatenate([np.zeros(0, np.uint16), *self._pieces]), self._distinct().tolist())

    def _coded(self, values: Floats) -> npt.NDArray[np.uint16] | None:
        import pyarrow as pa  # noqa: PLC0415

        if self._codes is None:
            return None
        encoded = pa.array(values.view(np.int64)).dictionary_encode()
        if len(encoded.dictionary) <= DISTINCT_MAX:
            code_of = [
                self._codes.setdefault(bits, len(self._codes)) for bits in encoded.dictionary.to_pylist()
            ]
            if len(self._codes) <= DISTINCT_MAX:
                codes: npt.NDArray[np.uint16] = np.asarray(code_of, np.uint16)[encoded.indices.to_numpy()]
                return codes
        self._pieces = [self._distinct()[piece] for piece in self._pieces]
        self._codes = None
        return None

    def _distinct(self) -> Floats:
        return np.fromiter(self._codes or (), np.int64).view(np.float64)


def column_from(values: "pa.ChunkedArray") -> Column:
    """A column of numbers, texts or booleans; a number that is not finite is None."""
    import pyarrow as pa  # noqa: PLC0415

    if not pa.types.is_floating(values.type):
        return _coded(_encoded(values))
    most = min(DISTINCT_MAX, max(len(values) // 4, FEW))
    some = np.arange(0, len(values), 1 + len(values) // PROBED)
    for part in (values[:PROBED], values.take(pa.array(some)), values):
        encoded = _encoded(part)
        if len(encoded.dictionary) > most:
            return _numbers(values)
    return _coded(encoded)


def _encoded(values: "pa.ChunkedArray") -> "pa.DictionaryArray":
    encoded = values.dictionary_encode()
    return encoded.combine_chunks() if encoded.num_chunks != 1 else encoded.chunk(0)


def _numbers(values: "pa.ChunkedArray") -> Numbers:
    found = np.asarray(values.to_numpy(zero_copy_only=False), np.float64)
    finite = np.isfinite(found)
    return Numbers(found if finite.all() else np.where(finite, found, np.nan))


def _coded(encoded: "pa.DictionaryArray") -> Coded:
    """The distinct values that occur, each once, in as few bytes as their number needs."""
    codes: dict[object, int] = {}
    known = [_finite(value) for value in encoded.dictionary.to_pylist()]
    code_of = [codes.setdefault(value, len(codes)) for value in known]
    places = encoded.indices
    if places.null_count:
        places = places.fill_null(len(code_of))
        code_of.append(codes.setdefault(None, len(codes)))
    size = next(size for size in (np.uint8, np.uint16, np.uint32) if len(codes) <= np.iinfo(size).max)
    if len(codes) == len(code_of):  # each place is its code
        return Coded(places.to_numpy().astype(size), list(codes))
    return Coded(np.asarray(code_of, size)[places.to_numpy()], list(codes))


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not isfinite(value) else value


def arrow_from(column: Column, rows: npt.NDArray[np.intp], kind: "pa.DataType") -> "pa.Array":
    """Some rows of a column as an Arrow array."""
    import pyarrow as pa  # noqa: PLC0415

    if isinstance(column, Lists):
        return pa.array(column.taken(rows).arrays(slice(None)), kind)
    if isinstance(column, Numbers):
        values = column.array[rows]
        return pa.array(values, pa.float64(), mask=np.isnan(values) if column.gaps else None).cast(kind)
    return pa.array(column.distinct, kind).take(pa.array(column.array[rows]))
