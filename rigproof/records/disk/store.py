"""The Recording on disk: written while a run goes on, read back on any machine.

    recording.jsonl     records of rare types, one per line, `type` first; the first line is the run itself
    telemetry.arrows    samples, during the run: an Arrow IPC stream
    round.arrows, …     records of frequent types, one stream per type, named after it
    telemetry.parquet, round.parquet, …
                        the same data, once the run has ended; the streams are then removed

All files are synced to the disk every FLUSH_S, so that a killed process, a crashed machine or a failing
power supply costs the seconds since the last sync, not the run.
"""

import errno
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rigproof.records.disk import record_tables, sample_tables
from rigproof.records.disk.clean import NotStorableError, clean, plain
from rigproof.records.disk.durable import GrowingFile, replacing
from rigproof.records.disk.reading import (
    RECORD_TYPES,
    RECORDING_FILE,
    RECORDING_SCHEMA_VERSION,
    STREAM,
    STREAM_FILE,
    TABLE,
    read_recording,
)
from rigproof.records.disk.tables import END_OF_STREAM
from rigproof.records.fields import table_name
from rigproof.records.identity import RunInfo
from rigproof.records.measurements import Event, Stage
from rigproof.records.recording import Record, Recording, RecordingError, Sample
from rigproof.records.samples import GpuSample, HostSample

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FLUSH_S", "RecordingError", "RecordingWriter", "read_recording", "write_recording"]

# With the time between two calls of `add`, and the disk's, less than the 10 s that docs/reports.md promises.
FLUSH_S = 4.0
ROW_GROUP = 65536
_TAGS = {record: tag for tag, record in RECORD_TYPES.items()}
_NAMES = {record: tuple(field.name for field in fields(record)) for record in _TAGS}
_SAMPLES = (table_name(GpuSample), table_name(HostSample))
TELEMETRY = Path(STREAM_FILE).stem


class StreamFile:
    """A growing file of record batches: one stream, followed by another one for each new schema."""

    def __init__(self, path: Path) -> None:
        """Create it, empty. Raises OSError."""
        self._file = GrowingFile(path)
        self._layout: pa.Schema | None = None
        self.labels: record_tables.LabelKinds = {}

    def append(self, layout: "pa.Schema", batch: "pa.RecordBatch") -> None:
        """Append one batch and sync it. Raises OSError; the file then still ends with the previous batch."""
        piece = b""
        if self._layout is None or not layout.equals(self._layout):
            piece = b"" if self._layout is None else END_OF_STREAM
            piece += layout.serialize().to_pybytes()
        piece += batch.serialize().to_pybytes()
        self._file.append(lambda: self._file.file.write(piece))
        self._layout = layout

    def close(self) -> None:
        """Close it. Raises OSError if its last bytes do not fit."""
        self._file.close()


class RecordingWriter:
    """Keeps a run's Recording in memory and on disk. Threads may add at the same time.

    `add`, `flush` and `close` never raise: if the disk fails, `error` holds the first failure, and recording
    continues in memory; `close` then tries once more to write everything. A record with a required number
    that is not finite is replaced by an Event of kind "storage".
    `add` flushes everything once `flush_s` have passed, and a Stage at once; a caller that adds nothing for
    longer calls `flush`.
    `add` may be called from a signal handler; the others may not.
    """

    def __init__(
        self,
        folder: Path,
        run: RunInfo,
        *,
        clock: Callable[[], float] = time.monotonic,
        flush_s: float = FLUSH_S,
    ) -> None:
        """Create the folder's files. A failure sets `error` instead of raising."""
        self.folder = Path(folder)
        self.recording = Recording(clean(run))
        self.error: str | None = None
        self._clock = clock
        self._flush_s = flush_s
        # Protects pending records. Reentrant, since a signal handler may add in the middle of an `add`.
        self._lock = threading.RLock()
        self._io = threading.Lock()  # protects the files; taken before `_lock`
        self._lines_pending: list[Record | RunInfo] = [self.recording.run]
        self._rows_pending: dict[str, list[Any]] = {}  # by stream
        self._flushed_s = clock()
        self._lines: GrowingFile | None = None
        self._streams: dict[str, StreamFile] = {}
        self._closed = False
        self._catching(self._open)
        self.flush()

    def add(self, record: Record | Sample) -> None:
        """Add one record to the Recording and, with the next flush, to the disk."""
        try:
            stored = clean(record)
        except NotStorableError as refused:
            stored = _refusal(record, refused)
        with self._lock:
            self.recording.add(stored)
            if self._closed:
                return
            kind = type(stored)
            if kind in _TAGS:
                self._lines_pending.append(stored)  # type: ignore[arg-type]
            else:
                self._rows_pending.setdefault(stream_of(kind), []).append(stored)
            # A stage's beginning and end are written at once: `rigproof monitor` follows the run by them.
            due = isinstance(stored, Stage) or self._clock() - self._flushed_s >= self._flush_s
        if due and self._io.acquire(blocking=False):  # else another thread is flushing this one too
            try:
                self._write_pending()
            finally:
                self._io.release()

    def extend(self, records: Iterable[Record | Sample]) -> None:
        """Add several records."""
        for record in records:
            self.add(record)

    def flush(self) -> None:
        """Write and sync everything that was added."""
        with self._io:
            self._write_pending()

    def close(self) -> None:
        """Flush, turn streams into tables, and close all files. A second call does nothing."""
        with self._io:
            if self._closed:
                return
            self._write_pending()
            with self._lock:
                self._closed = True
            failed = self.error is not None
            self._close_files()
            if failed:
                self._catching(lambda: _write_lines(self.folder, self.recording))
            self._catching(lambda: _write_tables(self.folder, self.recording))

    def _catching(self, action: Callable[[], None]) -> None:
        """Do it; errors of the disk (or of pyarrow about it) set `error`."""
        try:
            action()
        except (OSError, ValueError, TypeError, MemoryError, ImportError) as error:
            if self.error is None:
                self.error = disk_problem(self.folder, error)

    def _open(self) -> None:
        self._lines = GrowingFile(self.folder / RECORDING_FILE)
        self._append_rows(TELEMETRY, [])  # writes its schema

    def _write_pending(self) -> None:
        """Write and sync pending records; `_io` is held. After an error they are only kept in memory."""
        with self._lock:
            records, self._lines_pending = self._lines_pending, []
            tables, self._rows_pending = self._rows_pending, {}
            self._flushed_s = self._clock()
        try:
            if self.error is None and records:
                self._catching(lambda: self._append_lines(records))
            records = []
            for name in list(tables):
                if self.error is None:
                    self._catching(lambda name=name: self._append_rows(name, tables[name]))  # type: ignore[misc]
                del tables[name]
        except BaseException:  # Ctrl-C in the middle of it: the next flush writes them
            with self._lock:
                self._lines_pending[:0] = records
                for name, rows in tables.items():
                    self._rows_pending.setdefault(name, [])[:0] = rows
            raise

    def _append_lines(self, records: list[Record | RunInfo]) -> None:
        if (lines := self._lines) is not None:
            lines.append(lambda: lines.file.write(b"".join(_line(record) for record in records)))

    def _append_rows(self, name: str, records: list[Any]) -> None:
        run_id = self.recording.run.run_id
        if name not in self._streams:
            self._streams[name] = StreamFile(self.folder / f"{name}{STREAM}")
        stream = self._streams[name]
        if name == TELEMETRY:
            stream.append(sample_tables.schema(run_id), sample_tables.batch(records, run_id))
            return
        labels = {**stream.labels, **record_tables.labels_in(records)}
        layout = record_tables.schema(type(records[0]), name, run_id, labels)
        stream.append(layout, record_tables.batch(records, layout))
        stream.labels = labels

    def _close_files(self) -> None:
        for handle in (*self._streams.values(), self._lines):
            if handle is not None:  # a file is closed even if its last bytes do not fit
                self._catching(handle.close)
        self._streams, self._lines = {}, None


def stream_of(record: type) -> str:
    """The name of the stream that records of this type go to, without its suffix."""
    name = table_name(record)
    return TELEMETRY if name in _SAMPLES else name


def write_recording(folder: Path, recording: Recording) -> None:
    """Write all files of a recording as they are at a run's end. Raises OSError and pyarrow's errors."""
    _write_lines(folder, recording)
    _write_tables(folder, recording)


def _write_lines(folder: Path, recording: Recording) -> None:
    """Replace recording.jsonl by one with all records of rare types."""
    records: list[Any] = [recording.run, *([] if recording.plan is None else [recording.plan])]
    records += [*recording.nodes.values(), *recording.gpus.values(), *recording.workers]
    records += [*recording.counters, *recording.boots, *recording.foreign_memory.values()]
    records += [*recording.processes, *recording.process_watches.values()]
    records += [*recording.attempts, *recording.events]
    with replacing(folder / RECORDING_FILE) as file:
        file.writelines(_line(record) for record in records)


def _write_tables(folder: Path, recording: Recording) -> None:
    """Write a table for each frequent type; its stream is then removed."""
    run_id = recording.run.run_id
    samples = [
        sample_tables.batches(rows, kind, run_id, ROW_GROUP)
        for rows, kind in ((recording.gpu_samples, "gpu"), (recording.host_samples, "host"))
    ]
    tables: dict[str, tuple[pa.Schema | None, Iterator[pa.RecordBatch]]] = {
        name: (None, record_tables.batches(rows, name, run_id, ROW_GROUP))
        for name, rows in tuple(recording.tables.items())
        if name not in _SAMPLES and len(rows)
    }
    layout_of_samples = sample_tables.schema(run_id, sorted(tables))
    tables[TELEMETRY] = (layout_of_samples, chain(*samples))  # last: a run that has it has ended
    for name, (layout, batches) in tables.items():
        _write_table(folder / f"{name}{TABLE}", layout, batches)
        (folder / f"{name}{STREAM}").unlink(missing_ok=True)


def _write_table(path: Path, layout: "pa.Schema | None", batches: "Iterator[pa.RecordBatch]") -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415

    first = next(batches, None)
    layout = first.schema if layout is None and first is not None else layout
    with replacing(path) as file, pq.ParquetWriter(file, layout, compression="zstd") as writer:
        for batch in chain([] if first is None else [first], batches):
            writer.write_batch(batch)


def _line(record: Record | RunInfo) -> bytes:
    """A record's line in recording.jsonl."""
    kind = type(record)
    content: dict[str, Any] = {"type": _TAGS[kind]}
    if isinstance(record, RunInfo):
        content["schema_version"] = RECORDING_SCHEMA_VERSION
    content.update((name, getattr(record, name)) for name in _NAMES[kind])
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _refusal(record: Record | Sample, refused: NotStorableError) -> Event:
    """The Event that replaces a record that cannot be stored."""
    moment = plain(getattr(record, "t_s", None))
    subject = str(getattr(record, "subject", "rig"))
    return clean(
        Event(
            t_s=moment if isinstance(moment, (int, float)) else 0.0,
            kind="storage",
            subject=subject,
            message=f"a record was refused: {refused}",
            stage=getattr(record, "stage", None),
            worker=getattr(record, "worker", None),
            data={"error": str(refused), "record": repr(record)[:500]},
        )
    )


def disk_problem(folder: Path, error: BaseException) -> str:
    """A message about what went wrong with a run's files, and the way out."""
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENOSPC:
        way_out = "free some space there, or give --hw-report-dir on another disk"
    elif number in (errno.EACCES, errno.EPERM, errno.EROFS):
        way_out = "make it writable, or give another --hw-report-dir"
    elif number == errno.EIO:
        way_out = "check that disk (dmesg), or give --hw-report-dir on another one"
    else:
        way_out = "look at that folder, or give another --hw-report-dir"
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return f"{folder}: the recording could not be written: {reason.splitlines()[0]}; {way_out}"
