"""Reads a run's files back into a Recording, and says what is wrong with a file that is not one.

What a crash leaves is read as far as it goes: a torn last line, a stream that breaks off. Each such loss
is an Event of kind "storage", so that every output of a later judgement can say it.
"""

import contextlib
import ctypes
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO, Any, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from rigproof.records.disk import tables
from rigproof.records.disk.bulk import Block, BulkReader
from rigproof.records.disk.clean import INT64
from rigproof.records.disk.tables import Samples
from rigproof.records.identity import GpuIdentity, NodeIdentity, RunInfo, WorkerIdentity
from rigproof.records.limits import (
    LINE_VALUES_MAX,
    RECORDING_BYTES_MAX,
    RECORDING_LINE_BYTES_MAX,
    FileRefusedError,
    has_too_many_values,
    open_plain,
    require_inside,
)
from rigproof.records.measurements import (
    BootReading,
    Event,
    ForeignMemory,
    GpuCounters,
    MemoryReading,
    RewardBatch,
    Round,
    Stage,
)
from rigproof.records.processes import GpuProcess, ProcessWatch
from rigproof.records.recording import Recording
from rigproof.records.telling import first_problem, shortened

RECORDING_SCHEMA_VERSION = 1
RECORDING_FILE = "recording.jsonl"
STREAM_FILE = "telemetry.arrows"
PARQUET_FILE = "telemetry.parquet"
RECORD_TYPES: dict[str, type] = {
    "run": RunInfo,
    "node": NodeIdentity,
    "gpu": GpuIdentity,
    "worker": WorkerIdentity,
    "round": Round,
    "memory": MemoryReading,
    "rewards": RewardBatch,
    "counters": GpuCounters,
    "boot": BootReading,
    "foreign_memory": ForeignMemory,
    "process": GpuProcess,
    "process_watch": ProcessWatch,
    "stage": Stage,
    "event": Event,
}
FREED_FROM = 1_000_000  # records
BLOCK_BYTES = 16 * 2**20
READ_AHEAD = 2  # blocks
FIRST_LINE = "the first line, and only that, holds the run"
RUN_FOLDER = "give the folder of a run, one that holds this file"
RESTORE = "restore the file, or name another run"

_ADAPTERS: dict[str, TypeAdapter[Any]] = {}
_WHOLE: dict[str, tuple[str, ...]] = {}  # fields


class RecordingError(Exception):
    """A run's folder that cannot be read; the message names file, place, fault and way out."""


def read_recording(folder: Path) -> Recording:
    """The Recording of a run's folder, whether its run ended or broke off.

    Raises RecordingError where a file is absent, foreign, damaged before its end, or too large.
    """
    folder = Path(folder)
    with ThreadPoolExecutor(1) as pool:  # both at once, since Arrow's threads do most of either
        coming = pool.submit(_read_samples, folder)
        recording = _read_records(folder / RECORDING_FILE)
        samples = coming.result()
    _put_samples(recording, samples)
    if recording.count() > FREED_FROM:
        give_memory_back()
    return recording


def give_memory_back() -> None:
    """What reading a large recording took for a while, as much again as it left, goes back to the system."""
    import pyarrow as pa  # noqa: PLC0415

    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)


def _read_records(path: Path) -> Recording:
    try:
        require_inside(path, path.parent)
        with open_plain(path, RECORDING_BYTES_MAX) as file:
            first = file.readline(RECORDING_LINE_BYTES_MAX + 1)
            if not first:
                raise RecordingError(
                    f"{path}: is empty: the run broke off before its first line; name another run"
                )
            try:
                run = record_of_line(first)
                if not isinstance(run, RunInfo):
                    raise ValueError(FIRST_LINE)
            except ValueError as error:
                raise _line_error(path, 1, first, error) from None
            recording = Recording(run)
            _read_blocks(path, file, recording)
            return recording
    except FileRefusedError as refused:
        raise RecordingError(f"{refused}; {RUN_FOLDER}") from None
    except OSError as error:
        raise RecordingError(
            f"{path}: {error.strerror or error}; make it readable, or name another run"
        ) from None


def _read_blocks(path: Path, file: IO[bytes], recording: Recording) -> None:
    """The lines behind the first: plain ones by the block, all others one by one."""
    bulk = BulkReader()
    number = 1
    for block in _ahead(file, bulk.read):
        bulk.keep(block)
        for place, line in block.left:
            try:
                record = record_of_line(line)
                if isinstance(record, RunInfo):
                    raise ValueError(FIRST_LINE)
            except ValueError as error:
                if not line.endswith(b"\n") and len(line) <= RECORDING_LINE_BYTES_MAX:  # the last one
                    torn = f"{path.name} breaks off in line {number + place + 1}; read up to there"
                    bulk.put_into(recording)
                    _note(recording, torn)
                    return
                raise _line_error(path, number + place + 1, line, error) from None
            if not bulk.add(record):
                recording.add(record)
        number += block.lines
    bulk.put_into(recording)


def _whole_lines(file: IO[bytes]) -> bytes:
    """The next BLOCK_BYTES of a file, and the rest of a line that they end in; empty at its end."""
    block = file.read(BLOCK_BYTES)
    if block and not block.endswith(b"\n"):
        block += file.readline(RECORDING_LINE_BYTES_MAX + 1)
    return block


def _ahead(file: IO[bytes], read: Callable[[bytes], Block]) -> Iterator[Block]:
    """What `read` makes of a file's blocks, in their order; the next ones are read while one is used."""
    coming: deque[Future[Block]] = deque()
    with ThreadPoolExecutor(READ_AHEAD) as pool:
        while (lines := _whole_lines(file)) or coming:
            if lines:
                coming.append(pool.submit(read, lines))
            if not lines or len(coming) > READ_AHEAD:
                yield coming.popleft().result()


def record_of_line(line: bytes) -> Any:
    """The record of one line of recording.jsonl. Raises ValueError (pydantic's is one)."""
    if len(line) > RECORDING_LINE_BYTES_MAX:
        raise ValueError(f"is longer than {RECORDING_LINE_BYTES_MAX} bytes")
    if has_too_many_values(line, LINE_VALUES_MAX):
        raise ValueError(f"has more than the {LINE_VALUES_MAX} values that a record can have")
    found = from_json(line, allow_inf_nan=False)
    tag = found.get("type") if isinstance(found, dict) else None
    if not isinstance(tag, str) or tag not in RECORD_TYPES:
        raise ValueError(f"type = {tag!a:.40} is none of {', '.join(RECORD_TYPES)}")
    if tag == "run" and found.get("schema_version") != RECORDING_SCHEMA_VERSION:
        version = found.get("schema_version")
        raise ValueError(f"schema_version = {version!a:.40}: this rigproof reads {RECORDING_SCHEMA_VERSION}")
    if tag not in _ADAPTERS:
        _WHOLE[tag] = _whole_numbers(RECORD_TYPES[tag])
        _ADAPTERS[tag] = TypeAdapter(RECORD_TYPES[tag])
    record = _ADAPTERS[tag].validate_json(line, strict=True)
    for name in _WHOLE[tag]:
        value = getattr(record, name)
        if value is not None and value not in INT64:
            raise ValueError(f"{name} is a number that no column can hold")
    return record


def _whole_numbers(record: type) -> tuple[str, ...]:
    """The fields that hold one."""
    hints = get_type_hints(record).items()
    return tuple(
        name for name, hint in hints if int in (hint, *get_args(hint)) and get_origin(hint) is not tuple
    )


def _line_error(path: Path, number: int, line: bytes, error: ValueError) -> RecordingError:
    said = first_problem(error) if isinstance(error, ValidationError) else shortened(str(error))
    shown = shortened(line[:60].decode("utf-8", "replace").strip(), 60)
    return RecordingError(
        f"{path}: line {number}: {said} (it begins {shown!r}); "
        f"repair or delete that line, read it with the rigproof that wrote it, or name another run"
    )


def _note(recording: Recording, message: str) -> None:
    moments = [event.t_s for event in recording.events] + [item.t_s for item in recording.rounds[-1:]]
    recording.add(Event(max(moments, default=0.0), "storage", "rig", message, data={"error": message}))


def _read_samples(folder: Path) -> tuple[Path, Samples] | None:
    """The file and what it holds; None where there is none."""
    found = _open_samples(folder)
    if found is None:
        return None
    path, file = found
    with file:
        try:
            if path.name == PARQUET_FILE:
                return path, tables.from_parquet(file, again=partial(open_plain, path, RECORDING_BYTES_MAX))
            return path, tables.from_stream(file)
        except tables.TableError as error:
            raise RecordingError(f"{path}: {error}; {RESTORE}") from None


def _put_samples(recording: Recording, found: tuple[Path, Samples] | None) -> None:
    """RecordingError where they are another run's."""
    if found is None:
        _note(recording, f"neither {PARQUET_FILE} nor {STREAM_FILE} is there: no samples to judge")
        return
    path, samples = found
    if not samples.whole:
        _note(recording, f"{STREAM_FILE} breaks off after {samples.rows} samples; read up to there")
    if samples.run_id and samples.run_id != recording.run.run_id:
        raise RecordingError(
            f"{path}: run_id = {shortened(samples.run_id, 80)} is not the run of {RECORDING_FILE} "
            f"({shortened(recording.run.run_id, 80)}); {RESTORE}"
        )
    recording.gpu_samples, recording.host_samples = samples.gpu, samples.host


def _open_samples(folder: Path) -> tuple[Path, IO[bytes]] | None:
    """The table, or the stream where there is none yet; None where neither is there."""
    for name in (PARQUET_FILE, STREAM_FILE, PARQUET_FILE):  # a run that ends puts one in the other's place
        path = folder / name
        try:
            if os.path.lexists(path):
                require_inside(path, folder)
                return path, open_plain(path, RECORDING_BYTES_MAX)
        except FileRefusedError as refused:
            if os.path.lexists(path):
                raise RecordingError(f"{refused}; {RESTORE}") from None
    return None
