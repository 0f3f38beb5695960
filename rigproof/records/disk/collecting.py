"""Between Arrow and Rows: Arrow arrays become columns that are as compact as possible, and back."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rigproof.records.columns import Coded, Column, Lists, Numbers

if TYPE_CHECKING:
    import pyarrow as pa

# Floats are held as codes while they repeat: up to as many distinct values as two bytes can number, and up to
# a quarter of the values or FEW, whichever is more. Otherwise they are held as they are.
DISTINCT_MAX = 2**16 - 1
FEW = 4096
PROBED = 2**17  # values that are looked at first: to count the distinct ones among millions takes seconds


def column_from(values: "pa.ChunkedArray") -> Column:
    """A column of numbers, texts or booleans; a number that is not finite is None."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    floating = pa.types.is_floating(values.type)
    most = min(DISTINCT_MAX, max(len(values) // 4, FEW))
    if floating and values.null_count < len(values):
        finite = pc.is_finite(values)
        if not pc.all(finite, min_count=0).as_py():
            values = pc.if_else(finite, values, None)
        if len(_encoded(values[:PROBED]).dictionary) > most:
            return _numbers(values)
    encoded = _encoded(values)
    if floating and len(encoded.dictionary) > most:
        return _numbers(values)
    return _coded(encoded)


def _encoded(values: "pa.ChunkedArray") -> "pa.DictionaryArray":
    encoded = values.dictionary_encode()
    return encoded.combine_chunks() if encoded.num_chunks != 1 else encoded.chunk(0)


def _numbers(values: "pa.ChunkedArray") -> Numbers:
    return Numbers(np.asarray(values.to_numpy(zero_copy_only=False), np.float64))


def _coded(encoded: "pa.DictionaryArray") -> Coded:
    """The distinct values that occur, each once, in as few bytes as their number needs."""
    codes: dict[object, int] = {}
    code_of = [codes.setdefault(value, len(codes)) for value in encoded.dictionary.to_pylist()]
    places = encoded.indices
    if places.null_count:
        places = places.fill_null(len(code_of))
        code_of.append(codes.setdefault(None, len(codes)))
    size = next(size for size in (np.uint8, np.uint16, np.uint32) if len(codes) <= np.iinfo(size).max)
    return Coded(np.asarray(code_of, size)[places.to_numpy()], list(codes))


def arrow_from(column: Column, rows: npt.NDArray[np.intp], kind: "pa.DataType") -> "pa.Array":
    """Some rows of a column as an Arrow array."""
    import pyarrow as pa  # noqa: PLC0415

    if isinstance(column, Lists):
        return pa.array(column.taken(rows).arrays(slice(None)), kind)
    if isinstance(column, Numbers):
        values = column.array[rows]
        return pa.array(values, pa.float64(), mask=np.isnan(values) if column.gaps else None).cast(kind)
    return pa.array(column.distinct, kind).take(pa.array(column.array[rows]))
