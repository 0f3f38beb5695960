"""Reads tables from the two kinds of file that a run writes: the stream during the run, the table at its end.

A file may come from anyone, and a few bytes can declare any number of rows. So the number of rows is limited
by the file's length, streams must be uncompressed, and each batch of a stream is validated: Arrow's own
reader trusts the lengths that the file states.
"""

import contextlib
import io
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from rigproof.records.disk import record_tables, sample_tables
from rigproof.records.disk.collecting import Source
from rigproof.records.rows import Rows
from rigproof.records.samples import GpuSample, HostSample

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

# A sample of a real rig takes 46 to 60 bytes on disk, since times and readings differ; in memory about 1 kB.
ROWS_FREE = 100_000
ROWS_PER_BYTE = 1
ROWS_MAX = 100_000_000
# Values in lists (the load of each CPU, the delays of wake-ups) may all be the same.
LISTED_FREE = 1_000_000
LISTED_PER_BYTE = 16
LISTS_AT_ONCE = 8192

# A stream starts over with a new schema when a record has a label that none had before.
SEGMENTS_MAX = 256
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"


class DamagedError(Exception):
    """A table that is damaged, not ours, or has more rows than its length allows; the message says which."""


@dataclass(frozen=True, slots=True)
class Samples:
    """A file's samples. `whole` is False if the file is cut off; `run_id` is empty if it names no run.

    `tables`: the names of the run's other tables, as far as they are known.
    """

    gpu: Rows[GpuSample]
    host: Rows[HostSample]
    run_id: str
    whole: bool = True
    tables: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """The number of samples of both kinds."""
        return len(self.gpu) + len(self.host)


@dataclass(frozen=True, slots=True)
class RecordTable:
    """Records whose type is not known yet; otherwise as Samples."""

    rows: Rows[Any]
    run_id: str
    whole: bool = True


def samples_from_parquet(file: IO[bytes], again: Callable[[], IO[bytes]] | None = None) -> Samples:
    """The samples of a telemetry.parquet, read one column at a time: all at once may be gigabytes.

    `again` reopens the same file, for columns of lists, which are read only when needed if there are many
    samples. Raises DamagedError.
    """
    source, layout = _parquet(file, again, sample_tables.problems)
    with _as_damaged():
        return _samples(source, layout)


def samples_from_stream(file: IO[bytes]) -> Samples:
    """The samples of a telemetry.arrows, as far as it goes. Raises DamagedError if it is no such stream."""
    table, whole = _stream(file, sample_tables.problems, sample_tables.schema(""))
    with _as_damaged():
        return _samples(_of_stream(table), table.schema, whole=whole)


def table_from_parquet(file: IO[bytes], name: str) -> RecordTable:
    """The records of a table at a run's end. Raises DamagedError."""
    source, layout = _parquet(file, None, lambda found: record_tables.problems(found, name))
    with _as_damaged():
        return RecordTable(record_tables.rows_of(source.column, layout), _run_id(layout))


def table_from_stream(file: IO[bytes], name: str) -> RecordTable | None:
    """The records of a stream, as far as it goes; None if it is cut off within its schema.

    Raises DamagedError if it is no such stream.
    """
    table, whole = _stream(file, lambda found: record_tables.problems(found, name), None)
    if table is None:
        return None
    with _as_damaged():
        return RecordTable(record_tables.rows_of(table.column, table.schema), _run_id(table.schema), whole)


@contextlib.contextmanager
def _as_damaged() -> Iterator[None]:
    """Raise any error about a table's content as a DamagedError."""
    import pyarrow as pa  # noqa: PLC0415

    try:
        yield
    # An index error: codes beyond the end of the dictionary.
    except (pa.ArrowException, OSError, MemoryError, ValueError, IndexError, StopIteration) as error:
        raise DamagedError(_first_line(error)) from None


def _parquet(
    file: IO[bytes], again: Callable[[], IO[bytes]] | None, problems: "Callable[[pa.Schema], list[str]]"
) -> "tuple[Source, pa.Schema]":
    """The columns of a file, each read when needed, and its schema."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    def column(name: str) -> "pa.ChunkedArray":
        with opened() as table:
            values = table.read(columns=[name]).column(0)
        require_all(len(values), name)
        return values

    def lists(name: str) -> "Iterator[pa.ChunkedArray]":
        found = 0
        with opened() as table:
            for piece in _listed(table, name, length):
                found += len(piece)
                yield piece
        require_all(found, name)

    @contextlib.contextmanager
    def opened() -> "Iterator[pq.ParquetFile]":
        if not file.closed or again is None:
            yield first
            return
        with again() as reopened:
            yield pq.ParquetFile(reopened, read_dictionary=texts)

    def require_all(found: int, name: str) -> None:
        if found != rows:
            raise ValueError(f"column {name} has {found} rows of {rows}")

    with _as_damaged():
        footer = pq.ParquetFile(file)
        layout = footer.schema_arrow
        _require(problems(layout))
        texts = [field.name for field in layout if pa.types.is_string(field.type)]
        rows, length = footer.metadata.num_rows, file.seek(0, io.SEEK_END)
        # Never `row_group(…).column(…)`: on a damaged file it ends the process with a C++ exception.
        if rows > min(ROWS_MAX, ROWS_FREE + ROWS_PER_BYTE * length):
            raise ValueError(f"{rows} rows in {length} bytes are more than any run writes")
        first = pq.ParquetFile(file, metadata=footer.metadata, read_dictionary=texts)
        return Source(column, lists), layout


def _stream(
    file: IO[bytes], problems: "Callable[[pa.Schema], list[str]]", nothing: "pa.Schema | None"
) -> "tuple[pa.Table | Any, bool]":
    """The content of a stream as far as it goes, and whether the stream is complete.

    If the stream is cut off within its schema: an empty table with the schema `nothing`, or None.
    """
    import pyarrow as pa  # noqa: PLC0415

    with _as_damaged():
        reader = StreamReader(problems)
        batches = list(reader.read(file))
        if reader.layout is None:
            if reader.error is not None and (reader.foreign or not _is_prefix(file)):
                raise reader.error
            return None if nothing is None else nothing.empty_table(), False
        if reader.error is not None and reader.foreign:
            raise reader.error
        parts = [pa.Table.from_batches([batch]) for batch in batches] or [reader.layout.empty_table()]
        return pa.concat_tables(parts, promote_options="default"), reader.error is None


class StreamReader:
    """Reads a stream that may still grow: each call of `read` continues where the last one ended.

    `error` is why it got no further, None at the file's end; `foreign`: further bytes would not help.
    """

    def __init__(self, problems: "Callable[[pa.Schema], list[str]]") -> None:
        self._problems = problems
        self._offset = 0
        self._segments = 0
        self._expects_schema = True  # next
        self.layout: pa.Schema | None = None
        self.error: Exception | None = None
        self.foreign = False

    def read(self, file: IO[bytes]) -> "Iterator[pa.RecordBatch]":
        """The batches that are complete by now."""
        import pyarrow as pa  # noqa: PLC0415

        self.error = None
        length = file.seek(0, io.SEEK_END)
        file.seek(self._offset)
        messages = pa.ipc.MessageReader.open_stream(file)
        while self._offset < length:
            try:
                message = messages.read_next_message()
                batch = None
                if self._expects_schema:
                    self._begin(message)
                else:
                    batch = _batch(message, self.layout)
            except StopIteration:
                # Cut off in the first bytes of a message, or followed by zeros, as a crash may leave them.
                if file.tell() == self._offset or self._expects_schema:
                    self.error = ValueError("is cut off")
                    return
                self._expects_schema, batch = True, None  # the end of a stream; another one may follow
                messages = pa.ipc.MessageReader.open_stream(file)
            except (pa.ArrowException, OSError, MemoryError, ValueError, struct.error) as error:
                self.error = error
                return
            self._offset = file.tell()
            if batch is not None:
                yield batch

    def _begin(self, message: "pa.ipc.Message") -> None:
        layout = _layout(message)
        wrong = self._problems(layout)
        if self._segments >= SEGMENTS_MAX:
            wrong = [f"more than {SEGMENTS_MAX} streams in one file"]
        if wrong:
            self.foreign = True
            _require(wrong)
        self.layout, self._expects_schema = layout, False
        self._segments += 1


def _layout(message: "pa.ipc.Message") -> "pa.Schema":
    """The schema that a stream begins with. Raises what the reader does."""
    import pyarrow as pa  # noqa: PLC0415

    if message.type != "schema":  # reading it as one would crash the process
        raise pa.ArrowInvalid(f"begins with a {message.type}, not with a schema")
    return pa.ipc.read_schema(message)


def _batch(message: "pa.ipc.Message", layout: "pa.Schema") -> "pa.RecordBatch":
    """A validated batch. Raises what the reader does, and ValueError for a compressed one."""
    import pyarrow as pa  # noqa: PLC0415

    if message.type != "record batch":
        raise ValueError(f"has a {message.type}, which no run writes")
    if _is_compressed(message.metadata.to_pybytes()):
        raise ValueError("has a compressed batch, which no run writes")
    batch = pa.ipc.read_record_batch(message, layout)
    batch.validate(full=True)
    return batch


def _is_compressed(metadata: bytes) -> bool:
    """Whether a record batch has `compression`: field 3 of the table that is field 2 of its message.

    See Arrow's Message.fbs; a flatbuffer's table begins with the distance back to its list of offsets. The
    reader has checked the flatbuffer. Still raises struct.error if it is not one.
    """

    def number(kind: str, place: int) -> int:
        found: int = struct.unpack_from(f"<{kind}", metadata, place)[0]
        return found

    def field(table: int, index: int) -> int:
        """The position of a table's field; 0 if it is absent."""
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
    """Raise ValueError with the first problems, if there are any."""
    if problems:
        raise ValueError("; ".join(problems[:3]))


def _listed(table: "pq.ParquetFile", name: str, length: int) -> "Iterator[pa.ChunkedArray]":
    """A column of lists, piece by piece: all their values may be gigabytes.

    Raises ValueError at more values than a file of that length can have.
    """
    import pyarrow as pa  # noqa: PLC0415

    listed = 0
    for batch in table.iter_batches(LISTS_AT_ONCE, columns=[name]):
        listed += len(batch.column(0).values)
        if listed > LISTED_FREE + LISTED_PER_BYTE * length:
            raise ValueError(f"{listed} values of lists in {length} bytes are more than any run writes")
        yield pa.chunked_array([batch.column(0)])


def _of_stream(table: "pa.Table") -> Source:
    """The columns of a stream that was read."""
    return Source(table.column, lambda name: iter([table.column(name)]))


def _samples(source: Source, layout: "pa.Schema", *, whole: bool = True) -> Samples:
    gpu, host = sample_tables.samples_of(sample_tables.completed(source, layout))
    return Samples(gpu, host, _run_id(layout), whole, tuple(_told(layout, "tables").split()))


def _run_id(layout: "pa.Schema") -> str:
    return _told(layout, "run_id")


def _told(layout: "pa.Schema", key: str) -> str:
    value: bytes = (layout.metadata or {}).get(key.encode(), b"")
    return value.decode("utf-8", "replace")


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[0][:300]
