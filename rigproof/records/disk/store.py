"""The Recording on disk: written while a run goes on, read back on any machine.

    recording.jsonl     one record a line, its `type` first; the run itself is the first line
    telemetry.arrows    samples, while the run goes on: an Arrow IPC stream
    telemetry.parquet   the same samples, once the run has ended; the stream is removed then

Both are flushed to the disk itself every FLUSH_S, so that a killed process, a crashed machine or a power
supply that gives up costs the seconds since the last flush, not the run.
"""

import errno
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from itertools import chain, islice
from pathlib import Path
from typing import Any

from rigproof.records.disk import columns
from rigproof.records.disk.clean import NotStorableError, clean, plain
from rigproof.records.disk.durable import GrowingFile, replacing
from rigproof.records.disk.reading import (
    PARQUET_FILE,
    RECORD_TYPES,
    RECORDING_FILE,
    RECORDING_SCHEMA_VERSION,
    STREAM_FILE,
    RecordingError,
    read_recording,
)
from rigproof.records.identity import RunInfo
from rigproof.records.measurements import Event, Stage
from rigproof.records.recording import Record, Recording, Sample
from rigproof.records.samples import GpuSample, HostSample

__all__ = ["FLUSH_S", "RecordingError", "RecordingWriter", "read_recording"]

FLUSH_S = 4.0  # with the poll between two calls of `add`, under the 5 s that are promised
ROW_GROUP = 65536
_TAGS = {record: tag for tag, record in RECORD_TYPES.items()}
_NAMES = {record: tuple(field.name for field in fields(record)) for record in _TAGS}


class RecordingWriter:
    """Keeps a run's Recording in memory and on disk. Threads may add at the same time.

    `add`, `flush` and `close` never raise: where the disk fails, `error` says so (the first failure is
    kept) and the Recording goes on in memory; `close` then tries once more to write all of it. A record
    whose required figure is not finite becomes an Event of kind "storage" in its place.
    `add` flushes what is older than `flush_s`, and each Stage at once; a caller that adds nothing for longer
    calls `flush`.
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
        """Make the folder's files. A failure to do so is an `error` too, not an exception."""
        self.folder = Path(folder)
        self.recording = Recording(clean(run))
        self.error: str | None = None
        self._clock = clock
        self._flush_s = flush_s
        # Of what is pending. A signal handler may add in the middle of an add, so it is reentrant.
        self._lock = threading.RLock()
        self._io = threading.Lock()  # of the files; taken before `_lock`
        self._records: list[Record | RunInfo] = [self.recording.run]
        self._samples: list[Sample] = []
        self._flushed_s = clock()
        self._lines: GrowingFile | None = None
        self._stream_file: GrowingFile | None = None
        self._stream: Any = None
        self._closed = False
        self._guard(self._open)
        self.flush()

    def add(self, record: Record | Sample) -> None:
        """Put one record into the Recording and, with the next flush, on the disk."""
        try:
            stored = clean(record)
        except NotStorableError as refused:
            stored = _refusal(record, refused)
        with self._lock:
            self.recording.add(stored)
            if self._closed:
                return
            if isinstance(stored, (GpuSample, HostSample)):
                self._samples.append(stored)
            else:
                self._records.append(stored)
            # A stage's beginning and end are told at once, so that whoever follows the run sees where it is.
            due = isinstance(stored, Stage) or self._clock() - self._flushed_s >= self._flush_s
        if due and self._io.acquire(blocking=False):  # another thread that flushes takes this one along
            try:
                self._write_pending()
            finally:
                self._io.release()

    def extend(self, records: Iterable[Record | Sample]) -> None:
        """Add many."""
        for record in records:
            self.add(record)

    def flush(self) -> None:
        """Bring everything that was added to the disk."""
        with self._io:
            self._write_pending()

    def close(self) -> None:
        """Flush, turn the stream into telemetry.parquet, close all files. A second call does nothing."""
        with self._io:
            if self._closed:
                return
            self._write_pending()
            with self._lock:
                self._closed = True
            broken = self.error is not None
            self._close_files()
            if broken:
                self._guard(self._rewrite_records)
            self._guard(self._write_parquet)

    def _guard(self, action: Callable[[], None]) -> None:
        """Do it; what the disk (or pyarrow, about the disk) says against it becomes `error`."""
        try:
            action()
        except (OSError, ValueError, MemoryError, ImportError) as error:
            if self.error is None:
                self.error = _disk_words(self.folder, error)

    def _open(self) -> None:
        import pyarrow as pa  # noqa: PLC0415

        self._lines = GrowingFile(self.folder / RECORDING_FILE)
        self._stream_file = file = GrowingFile(self.folder / STREAM_FILE)
        run_id = self.recording.run.run_id

        def begin() -> None:
            self._stream = pa.ipc.new_stream(file.file, columns.schema(run_id))
            self._stream.write_batch(columns.batch([], run_id))  # the schema, at once

        file.append(begin)

    def _write_pending(self) -> None:
        """Write and sync what waits; `_io` is held. After an error memory is all there is."""
        with self._lock:
            records, self._records = self._records, []
            samples, self._samples = self._samples, []
            self._flushed_s = self._clock()
        try:
            if self.error is None and records:
                self._guard(lambda: self._write_lines(records))
            records = []
            if self.error is None and samples:
                self._guard(lambda: self._write_samples(samples))
        except BaseException:  # Ctrl-C in the middle of it: the next flush takes them
            with self._lock:
                self._records[:0] = records
                self._samples[:0] = samples
            raise

    def _write_lines(self, records: list[Record | RunInfo]) -> None:
        if (lines := self._lines) is not None:
            lines.append(lambda: lines.file.write(b"".join(_line(record) for record in records)))

    def _write_samples(self, samples: list[Sample]) -> None:
        if self._stream_file is not None:
            rows = columns.batch(samples, self.recording.run.run_id)
            self._stream_file.append(lambda: self._stream.write_batch(rows))

    def _close_files(self) -> None:
        for handle in (self._stream, self._stream_file, self._lines):
            if handle is not None:  # a file is closed even where its last bytes do not fit
                self._guard(handle.close)
        self._stream = self._stream_file = self._lines = None

    def _rewrite_records(self) -> None:
        """After an error: all records of the memory, into a file of their own that then takes the place."""
        whole = self.recording
        records: list[Any] = [whole.run, *whole.nodes.values(), *whole.gpus.values(), *whole.workers]
        records += [*whole.rounds, *whole.memory, *whole.rewards, *whole.counters, *whole.boots]
        records += [*whole.foreign_memory.values(), *whole.processes, *whole.process_watches.values()]
        records += [*whole.attempts, *whole.events]
        with replacing(self.folder / RECORDING_FILE) as file:
            file.writelines(_line(record) for record in records)

    def _write_parquet(self) -> None:
        import pyarrow.parquet as pq  # noqa: PLC0415

        run_id = self.recording.run.run_id
        rows: Iterator[Sample] = chain(self.recording.gpu_samples, self.recording.host_samples)
        with (
            replacing(self.folder / PARQUET_FILE) as file,
            pq.ParquetWriter(file, columns.schema(run_id), compression="zstd") as writer,
        ):
            while group := list(islice(rows, ROW_GROUP)):
                writer.write_batch(columns.batch(group, run_id))
        (self.folder / STREAM_FILE).unlink(missing_ok=True)


def _line(record: Record | RunInfo) -> bytes:
    """A record as its line of recording.jsonl."""
    kind = type(record)
    content: dict[str, Any] = {"type": _TAGS[kind]}
    if isinstance(record, RunInfo):
        content["schema_version"] = RECORDING_SCHEMA_VERSION
    content.update((name, getattr(record, name)) for name in _NAMES[kind])
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _refusal(record: Record | Sample, refused: NotStorableError) -> Event:
    """The Event that stands for a record which is no measurement."""
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


def _disk_words(folder: Path, error: BaseException) -> str:
    """What went wrong with the files of a run, and the way out."""
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENOSPC:
        way_out = "free some space there, or give --report-dir on another disk"
    elif number in (errno.EACCES, errno.EPERM, errno.EROFS):
        way_out = "make it writable, or give another --report-dir"
    elif number == errno.EIO:
        way_out = "check that disk (dmesg), or give --report-dir on another one"
    else:
        way_out = "look at that folder, or give another --report-dir"
    said = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return f"{folder}: the recording could not be written: {said.splitlines()[0]}; {way_out}"
