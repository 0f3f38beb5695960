"""Between Arrow and Rows: Arrow arrays become columns that are as compact as possible, and back."""

from collections.abc import Iterable
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rigproof.records.columns import Coded, Column, FlatLists, Lists, Numbers

if TYPE_CHECKING:
    import pyarrow as pa

# Floats are held as codes while they repeat: up to as many distinct values as two bytes can number, and up to
# a quarter of the values or FEW, whichever is more. Otherwise they are held as they are.
DISTINCT_MAX = 2**16 - 1
FEW = 4096
# Values that are looked at first, the first ones and some of all: to count the distinct ones among millions
# takes seconds.
PROBED = 2**17


def column_from(values: "pa.ChunkedArray") -> Column:
    """A column of numbers, texts or booleans; a number that is not finite is None."""
    import pyarrow as pa  # noqa: PLC0415

    if not pa.types.is_floating(values.type):
        return _coded(_encoded(values))
    some = np.arange(0, len(values), 1 + len(values) // PROBED)
    for part in (values[:PROBED], values.take(pa.array(some)), values):
        encoded = _encoded(part)
        if _differs(encoded, len(values)):
            return _numbers(values)
    return _coded(encoded)


def lists_from(pieces: "Iterable[pa.ChunkedArray]") -> FlatLists:
    """A column of lists of numbers, of which only one piece at a time is held as numbers."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    values: list[pa.Array] = []
    lengths, known = [np.zeros(1, np.int64)], [np.zeros(0, np.bool_)]
    for piece in pieces:
        values += pc.list_flatten(piece).dictionary_encode().chunks
        lengths.append(pc.list_value_length(piece).fill_null(0).to_numpy())
        known.append(piece.is_valid().to_numpy())
    encoded = pa.chunked_array(values, pa.dictionary(pa.int32(), pa.float64())).unify_dictionaries()
    flat = _numbers(encoded.cast(pa.float64())) if _differs(encoded, len(encoded)) else _coded(encoded)
    return flat, np.cumsum(np.concatenate(lengths), dtype=np.int64), np.concatenate(known)


def arrow_from(column: Column, rows: npt.NDArray[np.intp], kind: "pa.DataType") -> "pa.Array":
    """Some rows of a column as an Arrow array."""
    import pyarrow as pa  # noqa: PLC0415

    if isinstance(column, Lists):
        return pa.array(column.taken(rows).arrays(slice(None)), kind)
    if isinstance(column, Numbers):
        values = column.array[rows]
        return pa.array(values, pa.float64(), mask=np.isnan(values) if column.gaps else None).cast(kind)
    return pa.array(column.distinct, kind).take(pa.array(column.array[rows]))


def _encoded(values: "pa.ChunkedArray") -> "pa.ChunkedArray":
    return values.dictionary_encode().unify_dictionaries()


def _differs(encoded: "pa.ChunkedArray", rows: int) -> bool:
    """Whether too many values are distinct for codes."""
    most = min(DISTINCT_MAX, max(rows // 4, FEW))
    return bool(encoded.num_chunks) and len(encoded.chunk(0).dictionary) > most


def _numbers(values: "pa.ChunkedArray") -> Numbers:
    found = np.asarray(values.to_numpy(zero_copy_only=False), np.float64)
    finite = np.isfinite(found)
    return Numbers(found if finite.all() else np.where(finite, found, np.nan))


def _coded(encoded: "pa.ChunkedArray") -> Coded:
    """The distinct values that occur, each once, in as few bytes as their number needs."""
    codes: dict[object, int] = {}
    dictionary = encoded.chunk(0).dictionary.to_pylist() if encoded.num_chunks else []  # of every chunk
    code_of = [codes.setdefault(_finite(value), len(codes)) for value in dictionary]
    gap = len(code_of)  # the code of a null in the encoded column
    if encoded.null_count:
        code_of.append(codes.setdefault(None, len(codes)))
    size = next(size for size in (np.uint8, np.uint16, np.uint32) if len(codes) <= np.iinfo(size).max)
    of_code = np.asarray(code_of, size)
    parts = [of_code[chunk.indices.fill_null(gap).to_numpy()] for chunk in encoded.chunks]
    return Coded(np.concatenate([np.zeros(0, size), *parts]), list(codes))


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not isfinite(value) else value
