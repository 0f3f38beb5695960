"""Reads a run's files back into a Recording, and says what is wrong with a file that is not one.

What a crash leaves is read as far as it goes: a torn last line, a stream that breaks off. Each such loss
is an Event of kind "storage", so that every output of a later judgement can say it.
"""

import os
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from rigproof.records import columns
from rigproof.records.identity import GpuIdentity, NodeIdentity, RunInfo, WorkerIdentity
from rigproof.records.measurements import (
    Event,
    ForeignMemory,
    GpuCounters,
    MemoryReading,
    RewardBatch,
    Round,
    Stage,
)
from rigproof.records.recording import Recording

if TYPE_CHECKING:
    import pyarrow as pa

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
    "foreign_memory": ForeignMemory,
    "stage": Stage,
    "event": Event,
}
# What a rig can write in a day is far below these; a file above them is not ours.
LINE_BYTES_MAX = 4 * 2**20
FILE_BYTES_MAX = 4 * 2**30
ROWS_MAX = 100_000_000

_ADAPTERS: dict[str, TypeAdapter[Any]] = {}


class RecordingError(Exception):
    """A run's folder that cannot be read; the message names file, place, fault and way out."""


def read_recording(folder: Path) -> Recording:
    """The Recording of a run's folder, whether its run ended or broke off.

    Raises RecordingError where a file is absent, foreign, damaged before its end, or too large.
    """
    folder = Path(folder)
    recording = _read_records(folder / RECORDING_FILE)
    _read_samples(folder, recording)
    return recording


def _read_records(path: Path) -> Recording:
    _check_size(path, "give the folder of a run, one that holds this file")
    recording: Recording | None = None
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(LINE_BYTES_MAX + 1):
                number += 1
                try:
                    record = record_of_line(line)
                    if isinstance(record, RunInfo) != (recording is None):
                        raise ValueError("the first line, and only that, holds the run")
                except ValueError as error:
                    if recording is not None and not line.endswith(b"\n") and not file.read(1):
                        _note(recording, f"{path.name} breaks off in line {number}; read up to there")
                        break
                    raise _line_error(path, number, line, error) from None
                if recording is None:
                    recording = Recording(record)
                else:
                    recording.add(record)
    except OSError as error:
        raise RecordingError(
            f"{path}: {error.strerror or error}; make it readable, or name another run"
        ) from None
    if recording is None:
        raise RecordingError(f"{path}: is empty: the run broke off before its first line; name another run")
    return recording


def record_of_line(line: bytes) -> Any:
    """The record of one line of recording.jsonl. Raises ValueError (pydantic's is one)."""
    if len(line) > LINE_BYTES_MAX:
        raise ValueError(f"is longer than {LINE_BYTES_MAX} bytes")
    found = from_json(line, allow_inf_nan=False)
    tag = found.get("type") if isinstance(found, dict) else None
    if not isinstance(tag, str) or tag not in RECORD_TYPES:
        raise ValueError(f"type = {tag!r} is none of {', '.join(RECORD_TYPES)}")
    if tag == "run" and found.get("schema_version") != RECORDING_SCHEMA_VERSION:
        version = found.get("schema_version")
        raise ValueError(f"schema_version = {version!r}: this rigproof reads {RECORDING_SCHEMA_VERSION}")
    if tag not in _ADAPTERS:
        _ADAPTERS[tag] = TypeAdapter(RECORD_TYPES[tag])
    return _ADAPTERS[tag].validate_json(line, strict=True)


def _line_error(path: Path, number: int, line: bytes, error: ValueError) -> RecordingError:
    if isinstance(error, ValidationError):
        said = "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or 'record'}: {problem['msg']}"
            for problem in error.errors()[:3]
        )
    else:
        said = str(error)
    shown = line[:60].decode("utf-8", "replace").strip()
    return RecordingError(
        f"{path}: line {number}: {said} (it begins {shown!r}); "
        f"repair or delete that line, read it with the rigproof that wrote it, or name another run"
    )


def _note(recording: Recording, message: str) -> None:
    moments = [event.t_s for event in recording.events] + [item.t_s for item in recording.rounds[-1:]]
    recording.add(Event(max(moments, default=0.0), "storage", "rig", message, data={"error": message}))


def _check_size(path: Path, way_out: str) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}; {way_out}") from None
    if not path.is_file():
        raise RecordingError(f"{path}: is not a file; {way_out}")
    if size > FILE_BYTES_MAX:
        raise RecordingError(
            f"{path}: {size} bytes are more than any run writes ({FILE_BYTES_MAX}); {way_out}"
        )


def _read_samples(folder: Path, recording: Recording) -> None:
    import pyarrow as pa  # noqa: PLC0415

    parquet, stream = folder / PARQUET_FILE, folder / STREAM_FILE
    way_out = "restore the file, or name another run"
    path = parquet if os.path.lexists(parquet) else stream
    if not os.path.lexists(path):
        _note(recording, f"neither {PARQUET_FILE} nor {STREAM_FILE} is there: no samples to judge")
        return
    _check_size(path, way_out)
    try:
        if path is parquet:
            table = _parquet_table(path)
        else:
            table, whole = _stream_table(path)
            if not whole:
                _note(recording, f"{STREAM_FILE} breaks off after {table.num_rows} samples; read up to there")
        gpu, host = columns.samples_of(table)
    except (pa.ArrowException, OSError, MemoryError, ValueError) as error:
        raise RecordingError(f"{path}: {_first_line(error)}; {way_out}") from None
    owner = (table.schema.metadata or {}).get(b"run_id", b"").decode("utf-8", "replace")
    if owner and owner != recording.run.run_id:
        raise RecordingError(
            f"{path}: run_id = {owner} is not the run of {RECORDING_FILE} ({recording.run.run_id}); {way_out}"
        )
    recording.gpu_samples.extend(gpu)
    recording.host_samples.extend(host)


def _parquet_table(path: Path) -> "pa.Table":
    import pyarrow.parquet as pq  # noqa: PLC0415

    with pq.ParquetFile(path) as file:
        _check_layout(file.schema_arrow, file.metadata.num_rows)
        return file.read(columns=list(columns.column_names()))


def _stream_table(path: Path) -> tuple["pa.Table", bool]:
    """What can be read of a stream, and whether that is all that was meant to be there."""
    import pyarrow as pa  # noqa: PLC0415

    with path.open("rb") as file:
        try:
            reader = pa.ipc.open_stream(file)
        except (pa.ArrowException, OSError):
            if path.stat().st_size and not _is_prefix(file):
                raise
            return columns.schema("").empty_table(), False
        _check_layout(reader.schema, 0)
        batches = []
        whole = True
        while True:
            try:
                batches.append(reader.read_next_batch())
            except StopIteration:
                break
            except (pa.ArrowException, OSError, MemoryError):
                whole = False
                break
        return pa.Table.from_batches(batches, schema=reader.schema), whole


def _is_prefix(file: IO[bytes]) -> bool:
    """Whether a file that cannot be opened begins as an Arrow stream does, or is all zero bytes."""
    file.seek(0)
    head = file.read(4)
    return head.startswith(b"\xff\xff\xff\xff") or not head.strip(b"\0")


def _check_layout(found: "pa.Schema", rows: int) -> None:
    if wrong := columns.problems(found):
        raise ValueError("; ".join(wrong[:3]))
    if rows > ROWS_MAX:
        raise ValueError(f"{rows} rows are more than any run writes ({ROWS_MAX})")


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[0]
