"""From Arrow tables to rows: columns of many tables, one behind the other, as small as they can be held."""

import types
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from rigproof.records.rows import Column, Numbers, Rows, Words

if TYPE_CHECKING:
    import pyarrow as pa

RecordType = TypeVar("RecordType")
DISTINCT_MAX = 2**16 - 1  # values that a code of two bytes can name; numbers with more are held as they are,
FEW = 4096  # and those that hardly come twice


@dataclass(frozen=True, slots=True)
class FieldKind:
    """What one field of a record may hold."""

    name: str
    kind: type  # float, int, str or bool
    choices: tuple[Any, ...]  # of a Literal; empty: any
    optional: bool  # may be None
    default: Any  # MISSING where it has none


def kinds_of(record: type) -> tuple[FieldKind, ...]:
    """The fields of a record type that holds only numbers, words and truths. TypeError for another one."""
    hints = get_type_hints(record)
    return tuple(_kind(field.name, hints[field.name], field.default) for field in fields(record))


def _kind(name: str, hint: Any, default: Any) -> FieldKind:
    parts = [part for part in get_args(hint) if part is not types.NoneType] if _is_union(hint) else [hint]
    choices = get_args(parts[0]) if get_origin(parts[0]) is Literal else ()
    kind = str if choices else parts[0]
    if len(parts) != 1 or kind not in (float, int, str, bool):
        raise TypeError(f"{name}: {hint} cannot be a column")
    return FieldKind(name, kind, choices, _is_union(hint), default)


def arrow_type(field: FieldKind) -> "pa.DataType":
    """What Arrow calls it."""
    import pyarrow as pa  # noqa: PLC0415

    return {float: pa.float64(), int: pa.int64(), str: pa.string(), bool: pa.bool_()}[field.kind]


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (types.UnionType, Union)  # Literal | None is the second


class Collector(Generic[RecordType]):
    """Takes the columns of one kind of record, table by table, and gives them as Rows."""

    def __init__(self, record: type[RecordType]) -> None:
        self.record = record
        self.kinds = kinds_of(record)
        self._columns = {one.name: Growing(one.default) for one in self.kinds}
        self._pending: list[RecordType] = []

    def add(self, table: "pa.Table") -> None:
        """Rows with these columns; nulls stand for the field's default."""
        self._add_pending()
        for one in self.kinds:
            self._columns[one.name].add(table.column(one.name))

    def add_record(self, record: RecordType) -> None:
        """One record, behind the others."""
        self._pending.append(record)

    def _add_pending(self) -> None:
        import pyarrow as pa  # noqa: PLC0415

        records, self._pending = self._pending, []
        for one in self.kinds if records else ():
            values = pa.array([getattr(record, one.name) for record in records], arrow_type(one))
            self._columns[one.name].add(pa.chunked_array([values]))

    def rows(self) -> Rows[RecordType]:
        """All of them. Nothing can be added after it."""
        self._add_pending()
        columns = {}
        for one in self.kinds:
            columns[one.name] = self._columns.pop(one.name).column()
        return Rows(self.record, columns)


class Growing:
    """One column: coded while its values are few, plain numbers from then on."""

    def __init__(self, default: Any = None) -> None:
        self._default = None if default is MISSING else default
        self._codes: dict[Any, int] = {}
        self._coded: list[npt.NDArray[np.uint32]] = []
        self._plain: list[npt.NDArray[np.float64]] | None = None
        self._known: pa.StringArray | None = None  # the words of _codes, in their order

    def add(self, values: "pa.ChunkedArray") -> None:
        """Put values behind the others."""
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
            codes.append(self._codes.setdefault(self._default, len(self._codes)))
            values = values.indices.fill_null(len(words))
        else:
            values = values.indices
        self._coded.append(np.asarray(codes, np.uint32)[values.to_numpy()])

    def _add_known(self, values: "pa.ChunkedArray") -> bool:
        """Whether all of these are words that were there before: then nothing has to be made of each."""
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
    """Of an Arrow array; null is NaN."""
    return np.asarray(values.to_numpy(zero_copy_only=False), np.float64)


def _joined(parts: list[Any], size: Any) -> npt.NDArray[Any]:
    """One array of them; `parts` is emptied on the way, so that they are not held twice."""
    whole = np.empty(sum(map(len, parts)), size)
    place = 0
    parts.reverse()
    while parts:
        part = parts.pop()
        whole[place : place + len(part)] = part
        place += len(part)
    return whole
