"""Tables from the two kinds of file that a run leaves: the stream while it goes on, the table at its end.

A table is data from anywhere, and a few bytes of it can declare any number of rows. So a file may hold only
as many as its length allows, a stream only uncompressed ones, and each batch of a stream is validated:
Arrow's own reader trusts the lengths that are written there.
"""

import contextlib
import io
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from rigproof.records.disk import columns, record_tables
from rigproof.records.rows import Rows
from rigproof.records.samples import GpuSample, HostSample

if TYPE_CHECKING:
    import pyarrow as pa

# Samples of real rigs take 46 to 60 bytes each: times and readings differ. In memory each takes about 1 kB.
ROWS_FREE = 100_000
ROWS_PER_BYTE = 1
ROWS_MAX = 100_000_000
# Those in lists (the load of each CPU, the delays of wake-ups) may all be the same.
LISTED_FREE = 1_000_000
LISTED_PER_BYTE = 16


# A stream begins anew where a record has a label that none had before.
SEGMENTS_MAX = 256
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"


class DamagedError(Exception):
    """A table that is damaged, not ours, or has more rows than its length allows; the message says which."""


@dataclass(frozen=True, slots=True)
class Samples:
    """What a file holds. `whole` is False where it breaks off; `run_id` is empty where it names no run."""

    gpu: Rows[GpuSample]
    host: Rows[HostSample]
    run_id: str
    whole: bool = True

    @property
    def rows(self) -> int:
        """Of both kinds."""
        return len(self.gpu) + len(self.host)


@dataclass(frozen=True, slots=True)
class Table:
    """Records of a type that nobody has asked for yet; otherwise as Samples."""

    rows: Rows[Any]
    run_id: str
    whole: bool = True


def samples_from_parquet(file: IO[bytes], again: Callable[[], IO[bytes]] | None = None) -> Samples:
    """The samples of a telemetry.parquet, one column after the other: all at once may be gigabytes.

    `again` opens the same file once more, for lists of many samples, which are read when they are asked for.
    Raises DamagedError.
    """
    source, layout = _parquet(file, again, columns.problems)
    with _told():
        return _samples(source, layout)


def samples_from_stream(file: IO[bytes]) -> Samples:
    """The samples of a telemetry.arrows, as far as it goes. Raises DamagedError where it is none at all."""
    table, whole = _stream(file, columns.problems, columns.schema(""))
    with _told():
        return _samples(table.column, table.schema, whole=whole)


def table_from_parquet(file: IO[bytes], name: str) -> Table:
    """The records of a table at a run's end. Raises DamagedError."""
    source, layout = _parquet(file, None, lambda found: record_tables.problems(found, name))
    with _told():
        return Table(record_tables.rows_of(source, layout), _owner(layout))


def table_from_stream(file: IO[bytes], name: str) -> Table | None:
    """The records of a stream, as far as it goes; None where it breaks off before its schema is whole.

    Raises DamagedError where it is none at all.
    """
    table, whole = _stream(file, lambda found: record_tables.problems(found, name), None)
    if table is None:
        return None
    with _told():
        return Table(record_tables.rows_of(table.column, table.schema), _owner(table.schema), whole)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """What is wrong with a table as a DamagedError."""
    import pyarrow as pa  # noqa: PLC0415

    try:
        yield
    # An index error: codes of a dictionary that has no such word.
    except (pa.ArrowException, OSError, MemoryError, ValueError, IndexError, StopIteration) as error:
        raise DamagedError(_first_line(error)) from None


def _parquet(
    file: IO[bytes], again: Callable[[], IO[bytes]] | None, problems: "Callable[[pa.Schema], list[str]]"
) -> "tuple[columns.Source, pa.Schema]":
    """The columns of a file, each read when it is asked for, and its schema."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    def column_of(opened: IO[bytes], name: str) -> "pa.ChunkedArray":
        table = pq.ParquetFile(opened, read_dictionary=texts)
        if pa.types.is_list(layout.field(name).type):
            return pa.chunked_array(
                list(_listed(table, name, opened.seek(0, io.SEEK_END))), pa.list_(pa.float64())
            )
        return table.read(columns=[name]).column(0)

    def column(name: str) -> "pa.ChunkedArray":
        if not file.closed or again is None:
            return whole(column_of(file, name), name)
        with again() as opened:
            return whole(column_of(opened, name), name)

    def whole(values: "pa.ChunkedArray", name: str) -> "pa.ChunkedArray":
        if len(values) != rows:
            raise ValueError(f"column {name} has {len(values)} rows of {rows}")
        return values

    with _told():
        table = pq.ParquetFile(file)
        layout = table.schema_arrow
        _require(problems(layout))
        texts = [field.name for field in layout if pa.types.is_string(field.type)]
        rows, length = table.metadata.num_rows, file.seek(0, io.SEEK_END)
        # Never `row_group(…).column(…)`: what it finds wrong ends the process, as a C++ exception.
        if rows > min(ROWS_MAX, ROWS_FREE + ROWS_PER_BYTE * length):
            raise ValueError(f"{rows} rows in {length} bytes are more than any run writes")
        return column, layout


def _stream(
    file: IO[bytes], problems: "Callable[[pa.Schema], list[str]]", nothing: "pa.Schema | None"
) -> "tuple[pa.Table | Any, bool]":
    """What a stream holds as far as it goes, and whether that is all.

    The table is of `nothing`, or None, where the stream breaks off before its schema is whole.
    """
    import pyarrow as pa  # noqa: PLC0415

    with _told():
        reader = StreamReader(problems)
        batches = list(reader.read(file))
        if reader.layout is None:
            if reader.error is not None and (reader.foreign or not _is_prefix(file)):
                raise reader.error
            return None if nothing is None else nothing.empty_table(), False
        if reader.error is not None and reader.foreign:
            raise reader.error
        parts = [pa.Table.from_batches([one]) for one in batches] or [reader.layout.empty_table()]
        return pa.concat_tables(parts, promote_options="default"), reader.error is None


class StreamReader:
    """Reads a stream that may still grow: each call of `read` goes on where the last one ended.

    `error` says why it got no further, None at the file's end; `foreign`: that no later bytes mend it.
    """

    def __init__(self, problems: "Callable[[pa.Schema], list[str]]") -> None:
        self._problems = problems
        self._offset = 0
        self._segments = 0
        self._begins = True  # whether a schema comes next
        self.layout: pa.Schema | None = None
        self.error: Exception | None = None
        self.foreign = False

    def read(self, file: IO[bytes]) -> "Iterator[pa.RecordBatch]":
        """The batches that are whole by now."""
        import pyarrow as pa  # noqa: PLC0415

        self.error = None
        length = file.seek(0, io.SEEK_END)
        file.seek(self._offset)
        messages = pa.ipc.MessageReader.open_stream(file)
        while self._offset < length:
            try:
                message = messages.read_next_message()
                found = None
                if self._begins:
                    self._begin(message)
                else:
                    found = _batch(message, self.layout)
            except StopIteration:
                # It breaks off in the first bytes of a message, or zeros follow, as a crash may leave them.
                if file.tell() == self._offset or self._begins:
                    self.error = ValueError("breaks off")
                    return
                self._begins, found = True, None  # the end of a stream, behind which another one may begin
                messages = pa.ipc.MessageReader.open_stream(file)
            except (pa.ArrowException, OSError, MemoryError, ValueError, struct.error) as error:
                self.error = error
                return
            self._offset = file.tell()
            if found is not None:
                yield found

    def _begin(self, message: "pa.ipc.Message") -> None:
        layout = _layout(message)
        wrong = self._problems(layout)
        if self._segments >= SEGMENTS_MAX:
            wrong = [f"more than {SEGMENTS_MAX} streams in one file"]
        if wrong:
            self.foreign = True
            _require(wrong)
        self.layout, self._begins = layout, False
        self._segments += 1


def _layout(message: "pa.ipc.Message") -> "pa.Schema":
    """The schema that a stream begins with. Raises what the reader does."""
    import pyarrow as pa  # noqa: PLC0415

    if message.type != "schema":  # read as one all the same, it would take the process down
        raise pa.ArrowInvalid(f"begins with a {message.type}, not with a schema")
    return pa.ipc.read_schema(message)


def _batch(message: "pa.ipc.Message", layout: "pa.Schema") -> "pa.RecordBatch":
    """A batch whose lengths are true. Raises what the reader does, and ValueError for a compressed one."""
    import pyarrow as pa  # noqa: PLC0415

    if message.type != "record batch":
        raise ValueError(f"a {message.type} is nothing that a run writes")
    if _is_compressed(message.metadata.to_pybytes()):
        raise ValueError("a compressed batch is nothing that a run writes")
    batch = pa.ipc.read_record_batch(message, layout)
    batch.validate(full=True)
    return batch


def _is_compressed(metadata: bytes) -> bool:
    """Whether a record batch has `compression`: field 3 of the table that is field 2 of its message.

    As in Arrow's Message.fbs; a flatbuffer's table begins with the distance back to its list of offsets. The
    reader has checked the flatbuffer. Raises struct.error all the same where it is none.
    """

    def number(kind: str, place: int) -> int:
        found: int = struct.unpack_from(f"<{kind}", metadata, place)[0]
        return found

    def field(table: int, index: int) -> int:
        """Where a table's field is; 0 where it has none."""
        offsets = table - number("i", table)
        length, slot = number("H", offsets), 4 + 2 * index
        offset = number("H", offsets + slot) if slot < length else 0
        return table + offset if offset else 0

    header = field(number("I", 0), 2)
    return field(header + number("I", header), 3) != 0


def _is_prefix(file: IO[bytes]) -> bool:
    """Whether a file that cannot be opened is empty, begins as an Arrow stream does, or is all zero bytes."""
    file.seek(0)
    head = file.read(4)
    return head.startswith(b"\xff\xff\xff\xff") or not head.strip(b"\0")


def _require(problems: list[str]) -> None:
    """ValueError with the first of them."""
    if problems:
        raise ValueError("; ".join(problems[:3]))


def _listed(table: "pa.parquet.ParquetFile", name: str, length: int) -> "Iterator[pa.Array]":
    """A column of lists, up to more values than a file of that length can have: ValueError then."""
    listed = 0
    for batch in table.iter_batches(columns=[name]):
        listed += len(batch.column(0).values)
        if listed > LISTED_FREE + LISTED_PER_BYTE * length:
            raise ValueError(f"{listed} values of lists in {length} bytes are more than any run writes")
        yield batch.column(0)


def _samples(column: columns.Source, layout: "pa.Schema", *, whole: bool = True) -> Samples:
    gpu, host = columns.samples_of(column)
    return Samples(gpu, host, _owner(layout), whole)


def _owner(layout: "pa.Schema") -> str:
    run_id: bytes = (layout.metadata or {}).get(b"run_id", b"")
    return run_id.decode("utf-8", "replace")


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[0][:300]
