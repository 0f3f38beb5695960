"""The Recording on disk: written while a run goes on, read back on any machine.

    recording.jsonl     records of rare types, one per line, `type` first; the first line is the run itself
    round/, gpu_sample/, …
                        records of frequent types, during the run: a folder per type, named after it, with
                        parts of its table (000000.parquet, …)
    round.parquet, …    the same data, once the run has ended; the folders are then removed
    telemetry.parquet   the samples of GPUs and hosts, as round.parquet

All files are synced to the disk every FLUSH_S, so that a killed process, a crashed machine or a failing
power supply costs the seconds since the last sync, not the run.
"""

import errno
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rigproof.records.columns import columns_of
from rigproof.records.disk.clean import NotStorableError, clean, plain
from rigproof.records.disk.durable import GrowingFile, replacing, sync_folder
from rigproof.records.disk.reading import (
    PARQUET_FILE,
    RECORD_TYPES,
    RECORDING_FILE,
    RECORDING_SCHEMA_VERSION,
    SAMPLES,
    read_recording,
)
from rigproof.records.disk.tables import (
    KINDS,
    TABLE,
    batches,
    schema_of,
    telemetry_schema,
    write_table,
)
from rigproof.records.fields import table_name
from rigproof.records.identity import RunInfo
from rigproof.records.measurements import Event, Stage
from rigproof.records.recording import Record, Recording, RecordingError, Sample
from rigproof.records.rows import Rows

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FLUSH_S", "RecordingError", "RecordingWriter", "read_recording", "write_recording"]

# With the time between two calls of `add`, and the disk's, less than the 10 s that docs/reports.md promises.
FLUSH_S = 4.0
PART_ROWS = 2000  # a part is replaced by a longer one until it has so many: a soak writes for days
_TAGS = {record: tag for tag, record in RECORD_TYPES.items()}
_NAMES = {record: tuple(field.name for field in fields(record)) for record in _TAGS}


class GrowingTable:
    """The folder of a table that grows: its parts, the last of which is replaced by longer ones."""

    def __init__(self, folder: Path, run_id: str) -> None:
        """The folder is created with its first part."""
        self._folder = folder
        self._run_id = run_id
        self._number = 0
        self._last: pa.Table | None = None  # the rows of the last part, while it grows

    def append(self, records: Sequence[Any]) -> None:
        """Append records of one type. Raises OSError, and leaves the parts on the disk as they were."""
        import pyarrow as pa  # noqa: PLC0415

        kind = type(records[0])
        rows = Rows(kind, columns_of(kind, records))
        layout = schema_of(rows, self._folder.name, self._run_id)
        part = pa.Table.from_batches(batches(rows, layout))
        if self._last is not None:
            part = pa.concat_tables([self._last, part], promote_options="default").combine_chunks()
        self._folder.mkdir(exist_ok=True)
        write_table(self._folder / f"{self._number:06}{TABLE}", part.schema, part.to_batches())
        sync_folder(self._folder)
        full = len(part) >= PART_ROWS
        self._number, self._last = (self._number + 1, None) if full else (self._number, part)


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
        self._rows_pending: dict[str, list[Any]] = {}  # by table
        self._flushed_s = clock()
        self._lines: GrowingFile | None = None
        self._tables: dict[str, GrowingTable] = {}
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
                self._rows_pending.setdefault(table_name(cast("type", kind)), []).append(stored)
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
        """Flush, join each table's parts into its file, and close all files. A second call does nothing."""
        with self._io:
            if self._closed:
                return
            self._write_pending()
            with self._lock:
                self._closed = True
            failed = self.error is not None
            if self._lines is not None:  # it is closed even if its last bytes do not fit
                self._catching(self._lines.close)
            self._lines = None
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
        if name not in self._tables:
            self._tables[name] = GrowingTable(self.folder / name, self.recording.run.run_id)
        self._tables[name].append(records)


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
    """Write the file of each table; the folder of its parts is then removed."""
    run_id = recording.run.run_id
    tables = {name: rows for name, rows in recording.tables.items() if name not in SAMPLES and len(rows)}
    for name, rows in tables.items():
        layout = schema_of(rows, name, run_id)
        write_table(folder / f"{name}{TABLE}", layout, batches(rows, layout))
        shutil.rmtree(folder / name, ignore_errors=True)
    samples: dict[str, Rows[Any]] = {kind: recording.of(record) for kind, record in KINDS.items()}
    layout = telemetry_schema(run_id, sorted(tables))
    parts = (batches(rows, layout, kind) for kind, rows in samples.items())
    write_table(
        folder / PARQUET_FILE, layout, chain.from_iterable(parts)
    )  # last: a run that has it has ended
    for name in SAMPLES:
        shutil.rmtree(folder / name, ignore_errors=True)


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
        way_out = "check that disk (`sudo dmesg`), or give --hw-report-dir on another one"
    else:
        way_out = "look at that folder, or give another --hw-report-dir"
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return f"{folder}: the recording could not be written: {reason.splitlines()[0]}; {way_out}"
