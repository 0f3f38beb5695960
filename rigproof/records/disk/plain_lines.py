"""Reads many JSON lines of one kind and one layout as columns: as what lies between their commas.

Lines that one program wrote have the same keys in the same order, so they are also a table with cells like
`"size":8192`. Arrow reads such a table in a third of the time that it takes for JSON. Each cell has to begin
with its column's key. Numbers are read by Arrow, which knows a few spellings that JSON does not (`1.`); of
text only what stands there as it is; every other cell is read as JSON, once for all lines that have it.
Whatever is not plainly right gives no table.
"""

from collections.abc import Sequence
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic_core import from_json

from rigproof.records.disk.clean import INT64
from rigproof.records.disk.collecting import FieldKind, arrow_type

if TYPE_CHECKING:
    import pyarrow as pa

_PIECE = 2**21  # bytes that Arrow gives one thread at a time
_TAG = "type"
REMEMBERED = 100_000  # cells of a field
_IN_NUMBERS = np.zeros(256, np.bool_)
_IN_NUMBERS[list(b"0123456789+-.eE")] = True
_IN_TEXT = np.ones(256, np.bool_)
_IN_TEXT[[*range(32), ord('"'), ord("\\")]] = False


class NotPlainError(ValueError):
    """A cell that has to be looked at with the rest of its line."""


class PlainLines:
    """Reads lines of one kind, whose fields are `kinds`. Remembers what cells mean."""

    def __init__(self, tag: str, kinds: Sequence[FieldKind]) -> None:
        self._kinds = {one.name: one for one in kinds}
        self._words: dict[str, dict[str, Any]] = {one.name: {} for one in kinds}
        self._tag = f'{{"{_TAG}":"{tag}"'

    def table(self, text: "pa.Buffer", first: bytes) -> "pa.Table | None":
        """A column for each field, null where it is None or left out; None where a line is not plain.

        `first` is the first line of the `text`.
        """
        import pyarrow as pa  # noqa: PLC0415

        try:
            keys = self._keys(first)
            cells = _cells(text, keys, {name for name, one in self._kinds.items() if _are_many(one)})
            if cells.column(_TAG).unique().to_pylist() != [self._tag]:
                return None
            columns = {key: self._column(key, cells.column(key), last=key == keys[-1]) for key in keys[1:]}
        except (pa.ArrowException, ValueError):
            return None
        columns |= {
            name: pa.chunked_array([pa.nulls(len(cells), arrow_type(one))])
            for name, one in self._kinds.items()
            if name not in columns
        }
        return pa.table(columns)

    def _keys(self, line: bytes) -> list[str]:
        """Of a line, in their order. ValueError where they are not those of the record."""
        keys = list(from_json(line))
        missing = [one for name, one in self._kinds.items() if name not in keys and one.default is MISSING]
        if keys[0] != _TAG or not set(keys[1:]) <= set(self._kinds) or missing:
            raise NotPlainError("these are other lines")
        return keys

    def _column(self, key: str, cells: "pa.ChunkedArray", *, last: bool) -> "pa.ChunkedArray":
        field, end = self._kinds[key], "}" if last else ""
        if not _are_many(field):
            return self._coded(field, cells, end)
        return _numbers(field, cells, end) if field.kind is float else _text(field, cells, end)

    def _coded(self, field: FieldKind, cells: "pa.ChunkedArray", end: str) -> "pa.ChunkedArray":
        """Cells of which there are few; each is read once."""
        import pyarrow as pa  # noqa: PLC0415

        known, kind = self._words[field.name], arrow_type(field)
        chunks = []
        for chunk in cells.chunks:
            found = chunk.dictionary.to_pylist()
            if len(known) > REMEMBERED:  # a file of numbers that never come twice
                known = self._words[field.name] = {}  # a new one: another thread may be using that one
            for cell in found:
                if cell not in known:
                    known[cell] = _word(field, cell, end)
            words = pa.array([known[cell] for cell in found], kind)
            chunks.append(words.take(chunk.indices).dictionary_encode())
        return pa.chunked_array(chunks)


def _are_many(field: FieldKind) -> bool:
    """Whether a field may be another one in each line."""
    return field.kind is float or (field.kind is str and not field.choices and not field.optional)


def _cells(text: "pa.Buffer", keys: Sequence[str], many: set[str]) -> "pa.Table":
    """What lies between the commas: coded where there are not `many`."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import csv  # noqa: PLC0415

    coded = pa.dictionary(pa.int32(), pa.string())
    return csv.read_csv(
        pa.BufferReader(text),
        read_options=csv.ReadOptions(column_names=keys, block_size=_PIECE),
        parse_options=csv.ParseOptions(delimiter=",", quote_char=False),
        convert_options=csv.ConvertOptions(
            column_types={key: pa.string() if key in many else coded for key in keys},
            strings_can_be_null=False,
        ),
    )


def _numbers(field: FieldKind, cells: "pa.ChunkedArray", end: str) -> "pa.ChunkedArray":
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    told = _between(f'"{field.name}":', cells, end)
    if field.optional:
        told = pc.if_else(pc.equal(told, "null"), None, told)
    _require_bytes(_IN_NUMBERS, told)
    numbers = told.cast(pa.float64())
    if not _all(pc.is_finite(numbers)):
        raise NotPlainError(field.name)
    return numbers


def _text(field: FieldKind, cells: "pa.ChunkedArray", end: str) -> "pa.ChunkedArray":
    told = _between(f'"{field.name}":"', cells, f'"{end}')
    _require_bytes(_IN_TEXT, told)
    return told


def _between(begin: str, cells: "pa.ChunkedArray", end: str) -> "pa.ChunkedArray":
    """What all cells have between these two."""
    import pyarrow.compute as pc  # noqa: PLC0415

    long = pc.greater_equal(pc.binary_length(cells), len(begin) + len(end))
    if not (_all(long) and _all(pc.starts_with(cells, begin)) and _all(pc.ends_with(cells, end))):
        raise NotPlainError(begin)
    return pc.utf8_slice_codeunits(cells, len(begin), -len(end) or None)


def _require_bytes(allowed: "np.typing.NDArray[np.bool_]", strings: "pa.ChunkedArray") -> None:
    for chunk in strings.drop_null().chunks:
        _, offsets, told = chunk.buffers()
        bounds = np.frombuffer(offsets, np.int32)[chunk.offset :][: len(chunk) + 1]
        if not allowed[np.frombuffer(told or b"", np.uint8)[bounds[0] : bounds[-1]]].all():
            raise NotPlainError("a byte that has to be looked at")


def _all(truths: "pa.ChunkedArray") -> bool:
    import pyarrow.compute as pc  # noqa: PLC0415

    return bool(pc.all(truths, min_count=0).as_py())


def _word(field: FieldKind, cell: str, end: str) -> Any:
    """What a cell says of a field. ValueError where that is nothing that it may hold."""
    begin = f'"{field.name}":'
    if not (cell.startswith(begin) and cell.endswith(end)):
        raise NotPlainError(cell)
    word = from_json(cell[len(begin) : len(cell) - len(end)])
    if word is None and field.optional:
        return None
    if type(word) is not field.kind or (field.choices and word not in field.choices):
        raise NotPlainError(cell)
    if field.kind is int and word not in INT64:
        raise NotPlainError(cell)
    return word
