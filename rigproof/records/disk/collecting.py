"""Between Arrow and Rows: joins chunks of Arrow arrays into columns as compact as possible."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rigproof.records.rows import Column, Lists, Numbers, Words

if TYPE_CHECKING:
    import pyarrow as pa

# Floats are held as codes while they repeat: up to as many distinct values as two bytes can number, and up to
# a quarter of the values or FEW, whichever is more. Otherwise they are held as they are.
DISTINCT_MAX = 2**16 - 1
FEW = 4096


def column_from(values: "pa.ChunkedArray") -> Column:
    """A column of numbers, texts or booleans; a number that is not finite is None."""
    growing = Growing()
    growing.add(values)
    return growing.column()


def arrow_from(column: Column, rows: npt.NDArray[np.intp], kind: "pa.DataType") -> "pa.Array":
    """Some rows of a column as an Arrow array."""
    import pyarrow as pa  # noqa: PLC0415

    if isinstance(column, Lists):
        return pa.array(column.taken(rows).arrays(slice(None)), kind)
    if isinstance(column, Numbers):
        values = column.array[rows]
        return pa.array(values, pa.float64(), mask=np.isnan(values) if column.gaps else None).cast(kind)
    return pa.array(column.words, kind).take(pa.array(column.array[rows]))


class Growing:
    """One column: coded while its distinct values are few, plain numbers from then on."""

    def __init__(self) -> None:
        self._codes: dict[Any, int] = {}
        self._coded: list[npt.NDArray[np.uint32]] = []
        self._plain: list[npt.NDArray[np.float64]] | None = None
        self._known: pa.StringArray | None = None  # the keys of _codes, in their order

    def add(self, values: "pa.ChunkedArray") -> None:
        """Append values."""
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.compute as pc  # noqa: PLC0415

        floating = pa.types.is_floating(values.type)
        if floating and values.null_count < len(values):
            finite = pc.is_finite(values)
            if not pc.all(finite, min_count=0).as_py():
                values = pc.if_else(finite, values, None)
        if self._plain is not None:
            self._plain.append(_numbers(values))
            return
        if pa.types.is_string(values.type) and self._add_known(values):
            return
        if not pa.types.is_dictionary(values.type):
            values = values.dictionary_encode()
        values = values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
        if floating and len(self._codes) + len(values.dictionary) > min(
            DISTINCT_MAX, max(len(values) // 4, FEW)
        ):
            self._plain = [*map(self._decoded, self._coded), _numbers(values.dictionary_decode())]
            self._coded = []
            return
        words = values.dictionary.to_pylist()
        codes = [self._codes.setdefault(word, len(self._codes)) for word in words]
        if values.null_count:
            codes.append(self._codes.setdefault(None, len(self._codes)))
            values = values.indices.fill_null(len(words))
        else:
            values = values.indices
        self._coded.append(np.asarray(codes, np.uint32)[values.to_numpy()])

    def _add_known(self, values: "pa.ChunkedArray") -> bool:
        """Append texts that all have a code already, without decoding each; False if one has none."""
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.compute as pc  # noqa: PLC0415

        if self._known is None or len(self._known) != len(self._codes):
            self._known = pa.array(self._codes, pa.string())
        codes = pc.index_in(values, self._known)
        if values.null_count or codes.null_count:
            return False
        self._coded.append(codes.to_numpy().astype(np.uint32))
        return True

    def column(self) -> Column:
        """The whole column."""
        if self._plain is not None:
            return Numbers(_joined(self._plain, np.float64))
        size = next(
            size for size in (np.uint8, np.uint16, np.uint32) if len(self._codes) <= np.iinfo(size).max
        )
        return Words(_joined(self._coded, size), list(self._codes))

    def _decoded(self, codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
        words = [np.nan if word is None else word for word in self._codes]
        return np.asarray(words, np.float64)[codes]


def _numbers(values: Any) -> npt.NDArray[np.float64]:
    """An Arrow array's numbers; null is NaN."""
    return np.asarray(values.to_numpy(zero_copy_only=False), np.float64)


def _joined(parts: list[Any], size: Any) -> npt.NDArray[Any]:
    """The parts as one array; `parts` is emptied on the way, so that they are not in memory twice."""
    whole = np.empty(sum(map(len, parts)), size)
    place = 0
    parts.reverse()
    while parts:
        part = parts.pop()
        whole[place : place + len(part)] = part
        place += len(part)
    return whole
