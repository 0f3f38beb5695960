"""Reads tables from parquet files that may come from anyone.

A few bytes can declare any number of rows or values. So these are limited by the file's length.
"""

import contextlib
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any

from rigproof.records.columns import Column, FlatLists, Lists
from rigproof.records.disk.arrow_columns import column_from, lists_from
from rigproof.records.disk.tables import KIND, KINDS, TELEMETRY, problems, python_type
from rigproof.records.fields import kinds_of, table_name
from rigproof.records.message_text import what_it_says
from rigproof.records.recording import RecordingError
from rigproof.records.rows import Rows

if TYPE_CHECKING:
    import pyarrow as pa

# A sample of a real rig takes 46 to 60 bytes on disk, since times and readings differ; in memory about 1 kB.
ROWS_FREE = 100_000
ROWS_PER_BYTE = 1
ROWS_MAX = 100_000_000
# Values in lists (the load of each CPU, the delays of wake-ups) may all be the same.
LISTED_FREE = 1_000_000
LISTED_PER_BYTE = 16
# Bytes in memory of all parts of a table; those of a real rig take fewer than on disk.
PARTS_FREE = 64 * 2**20
PARTS_PER_BYTE = 128
LISTS_AT_ONCE = 8192
EAGER_ROWS = 200_000  # with more, lists are read only when needed

Opened = Callable[[], IO[bytes]]


class DamagedError(RecordingError):
    """A table that is damaged, not ours, or has more rows than its length allows; the message says which."""


@dataclass(frozen=True, slots=True)
class Table:
    """What a file or a folder of parts holds: records by the name of their type, as columns.

    `run_id` is empty if it names no run. `others`: the run's other tables, as far as they are known.
    """

    rows: dict[str, Rows[Any]]
    run_id: str
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Source:
    """A checked table. Its columns are read one by one, and lists piece by piece: all may be gigabytes."""

    layout: "pa.Schema"
    rows: int
    pieces: "Callable[[str], Iterator[pa.ChunkedArray]]"

    def column(self, name: str) -> "pa.ChunkedArray":
        """A whole column. Raises ValueError if it is not as long as the table says."""
        import pyarrow as pa  # noqa: PLC0415

        chunks = [chunk for piece in self.pieces(name) for chunk in piece.chunks]
        values = pa.chunked_array(chunks, None if chunks else self.layout.field(name).type)
        if len(values) != self.rows:
            raise ValueError(f"column {name} has {len(values)} rows of {self.rows}")
        return values


def read_table(opened: Opened, name: str) -> Table:
    """The table of a file, which `opened` opens: again for long lists that are needed later.

    Raises DamagedError.
    """
    with as_damaged(), opened() as file:
        source, _ = _file(file, opened, name)
        if name != TELEMETRY:
            return Table({name: _rows(source)}, _told(source.layout, "run_id"))
        told = _told(source.layout, "tables")
        return Table(_samples(source), _told(source.layout, "run_id"), tuple(told.split()))


def read_parts(files: Sequence[Opened], name: str) -> Table:
    """The table of which these files are the parts. Raises DamagedError."""
    import pyarrow as pa  # noqa: PLC0415

    parts, layouts = [], []
    held, allowed = 0, PARTS_FREE
    with as_damaged():
        for opened in files:
            with opened() as file:
                source, length = _file(file, opened, name)
                parts.append(pa.table({column: source.column(column) for column in source.layout.names}))
            layouts.append(source.layout)
            held, allowed = held + parts[-1].nbytes, allowed + PARTS_PER_BYTE * length
            if held > allowed:
                raise ValueError(f"{held} bytes in its parts are more than any run writes")
            if _told(source.layout, "run_id") != _told(layouts[0], "run_id"):
                raise ValueError("its parts are of several runs")
        whole = pa.concat_tables(parts, promote_options="default")
        layout = pa.unify_schemas(layouts)
        rows = _rows(_Source(layout, whole.num_rows, lambda column: iter([whole.column(column)])))
        return Table({name: rows}, _told(layout, "run_id"))


@contextlib.contextmanager
def as_damaged() -> Iterator[None]:
    """Raise any error about a table's content as a DamagedError."""
    import pyarrow as pa  # noqa: PLC0415

    try:
        yield
    # An index error: codes beyond the end of the dictionary.
    except DamagedError:
        raise
    except (pa.ArrowException, OSError, MemoryError, ValueError, IndexError) as error:
        raise DamagedError(what_it_says(error)) from None


def _file(file: IO[bytes], again: Opened, name: str) -> tuple[_Source, int]:
    """The columns of a parquet file, and its length in bytes; `again` opens it once it is closed.

    Raises ValueError if it is no table of ours.
    """
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    # Never `row_group(…).column(…)`: on a damaged file it ends the process with a C++ exception.
    footer = pq.ParquetFile(file)
    layout, metadata = footer.schema_arrow, footer.metadata
    if wrong := problems(layout, name):
        raise ValueError("; ".join(wrong[:3]))
    length = file.seek(0, io.SEEK_END)
    if metadata.num_rows > min(ROWS_MAX, ROWS_FREE + ROWS_PER_BYTE * length):
        raise ValueError(f"{metadata.num_rows} rows in {length} bytes are more than any run writes")
    texts = [field.name for field in layout if pa.types.is_string(field.type)]

    def pieces(column: str) -> "Iterator[pa.ChunkedArray]":
        listed = 0
        with again() if file.closed else contextlib.nullcontext(file) as opened:
            table = pq.ParquetFile(opened, metadata=metadata, read_dictionary=texts)
            if not pa.types.is_list(layout.field(column).type):
                yield table.read(columns=[column]).column(0)
                return
            for batch in table.iter_batches(LISTS_AT_ONCE, columns=[column]):
                listed += len(batch.column(0).values)
                if listed > LISTED_FREE + LISTED_PER_BYTE * length:
                    raise ValueError(
                        f"{listed} values of lists in {length} bytes are more than any run writes"
                    )
                yield pa.chunked_array([batch.column(0)])

    return _Source(layout, metadata.num_rows, pieces), length


def _rows(source: _Source) -> Rows[Any]:
    """Rows whose type is not known yet. Raises ValueError if one lacks its time or subject."""
    columns = {field.name: _column(source, field.name) for field in source.layout}
    rows: Rows[Any] = Rows(None, columns, {field.name: python_type(field.type) for field in source.layout})
    rows.required("t_s", "subject")
    return rows


def _column(source: _Source, name: str) -> Column:
    import pyarrow as pa  # noqa: PLC0415

    if not pa.types.is_list(source.layout.field(name).type):
        return column_from(source.column(name))

    def load() -> FlatLists:
        with as_damaged():  # perhaps long after the rest of the table
            return lists_from(source.pieces(name))

    column = Lists(load)
    if source.rows <= EAGER_ROWS and len(column) != source.rows:
        raise ValueError(f"column {name} has {len(column)} rows of {source.rows}")
    return column


def _samples(source: _Source) -> dict[str, Rows[Any]]:
    """The samples of telemetry.parquet, by the names of their types. Raises ValueError."""
    import pyarrow.compute as pc  # noqa: PLC0415

    kinds = source.column(KIND)
    found: dict[str, Rows[Any]] = {}
    for kind, record in KINDS.items():
        own = pc.equal(kinds, kind).fill_null(False)
        found[table_name(record)] = _rows(_chosen(source, own, record)).typed(record)
    strays = source.rows - sum(map(len, found.values()))
    if strays:
        raise ValueError(f"{strays} of {source.rows} rows have a `kind` other than {', '.join(KINDS)}")
    return found


def _chosen(source: _Source, own: "pa.ChunkedArray", record: type) -> _Source:
    """The chosen rows, and of their columns the fields of a record."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    def pieces(name: str) -> "Iterator[pa.ChunkedArray]":
        row = 0
        for piece in source.pieces(name):
            yield piece.filter(own[row : row + len(piece)])
            row += len(piece)

    names = {field.name for field in kinds_of(record)}
    layout = pa.schema([field for field in source.layout if field.name in names])
    return replace(source, layout=layout, rows=pc.sum(own).as_py() or 0, pieces=pieces)


def _told(layout: "pa.Schema", key: str) -> str:
    value: bytes = (layout.metadata or {}).get(key.encode(), b"")
    return value.decode("utf-8", "replace")
