"""Samples from the two kinds of table that a run leaves: the stream while it goes on, the table at its end.

A table is data from anywhere, and a few bytes of it can declare any number of rows. So a file may hold only
as many as its length allows, a stream only uncompressed ones, and each batch of a stream is validated:
Arrow's own reader trusts the lengths that are written there.
"""

import io
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from rigproof.records.disk import columns
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


class TableError(Exception):
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


def from_parquet(file: IO[bytes], again: Callable[[], IO[bytes]] | None = None) -> Samples:
    """The samples of a telemetry.parquet, one column after the other: all at once may be gigabytes.

    `again` opens the same file once more, for lists of many samples, which are read when they are asked for.
    Raises TableError.
    """
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    def column_of(opened: IO[bytes], name: str) -> "pa.ChunkedArray":
        table = pq.ParquetFile(opened, read_dictionary=["kind", "subject"])
        if name in columns.LISTS:
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

    try:
        table = pq.ParquetFile(file)
        _check_layout(table.schema_arrow)
        rows, length = table.metadata.num_rows, file.seek(0, io.SEEK_END)
        # Never `row_group(…).column(…)`: what it finds wrong ends the process, as a C++ exception.
        if rows > min(ROWS_MAX, ROWS_FREE + ROWS_PER_BYTE * length):
            raise ValueError(f"{rows} rows in {length} bytes are more than any run writes")
        return _samples(column, table.schema_arrow)
    except (pa.ArrowException, OSError, MemoryError, ValueError) as error:
        raise TableError(_first_line(error)) from None


def from_stream(file: IO[bytes]) -> Samples:
    """The samples of a telemetry.arrows, as far as it goes. Raises TableError where it is none at all."""
    import pyarrow as pa  # noqa: PLC0415

    try:
        messages = pa.ipc.MessageReader.open_stream(file)
        try:
            layout = _layout(messages.read_next_message())
        except (pa.ArrowException, OSError, StopIteration):
            if not _is_prefix(file):
                raise
            nothing = columns.schema("").empty_table()
            return _samples(nothing.column, nothing.schema, whole=False)
        _check_layout(layout)
        batches, whole = _batches(messages, layout)
        table = pa.Table.from_batches(batches, schema=layout)
        return _samples(table.column, layout, whole=whole)
    except (pa.ArrowException, OSError, MemoryError, ValueError, StopIteration) as error:
        raise TableError(_first_line(error)) from None


def _layout(message: "pa.ipc.Message") -> "pa.Schema":
    """The schema that a stream begins with. Raises what the reader does."""
    import pyarrow as pa  # noqa: PLC0415

    if message.type != "schema":  # read as one all the same, it would take the process down
        raise pa.ArrowInvalid(f"begins with a {message.type}, not with a schema")
    return pa.ipc.read_schema(message)


def _batches(messages: "pa.ipc.MessageReader", layout: "pa.Schema") -> "tuple[list[pa.RecordBatch], bool]":
    """The batches up to the end or to the first damaged one, and whether it was the end."""
    import pyarrow as pa  # noqa: PLC0415

    found: list[pa.RecordBatch] = []
    try:
        while True:
            found.append(_batch(messages.read_next_message(), layout))
    except StopIteration:
        return found, True
    except (pa.ArrowException, OSError, MemoryError, ValueError, struct.error):
        return found, False


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


def _check_layout(found: "pa.Schema") -> None:
    if wrong := columns.problems(found):
        raise ValueError("; ".join(wrong[:3]))


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
    owner = (layout.metadata or {}).get(b"run_id", b"").decode("utf-8", "replace")
    return Samples(gpu, host, owner, whole)


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[0][:300]
