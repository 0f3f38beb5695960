"""Reads a run's files back into a Recording; errors say what is wrong with a file that is not valid.

Files of a crashed run are read as far as they go: a torn last line, a truncated stream. Each such loss
is an Event of kind "storage", so that every output of a later judgement can report it.
"""

import contextlib
import ctypes
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from rigproof.records.disk import tables
from rigproof.records.disk.clean import INT64
from rigproof.records.disk.tables import RecordTable, Samples
from rigproof.records.fields import NAME, table_name
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
    Round,
    Stage,
)
from rigproof.records.message_text import first_problem, one_line
from rigproof.records.processes import GpuProcess, ProcessWatch
from rigproof.records.recording import RecordedPlan, Recording, RecordingError
from rigproof.records.rows import Rows, TableError
from rigproof.records.samples import GpuSample, HostSample

RECORDING_SCHEMA_VERSION = 1
RECORDING_FILE = "recording.jsonl"
STREAM_FILE = "telemetry.arrows"
PARQUET_FILE = "telemetry.parquet"
STREAM, TABLE = ".arrows", ".parquet"  # suffixes of the files of a run's tables, samples included
TABLES_MAX = 32
RECORD_TYPES: dict[str, type] = {
    "run": RunInfo,
    "plan": RecordedPlan,
    "node": NodeIdentity,
    "gpu": GpuIdentity,
    "worker": WorkerIdentity,
    "counters": GpuCounters,
    "boot": BootReading,
    "foreign_memory": ForeignMemory,
    "process": GpuProcess,
    "process_watch": ProcessWatch,
    "stage": Stage,
    "event": Event,
}
TYPE_FIRST = re.compile(rb'\{"type": ?"([a-z_]+)",')
# In such a line there may be another type, also one in escaped letters, or a number that JSON does not know.
PARSED_IF = (b'"type"', b"\\u006", b"\\u007", b"NaN", b"Infinity")
MANY = 1_000_000  # records
GROUPED: dict[str, type] = {table_name(kind): kind for kind in (Round, MemoryReading)}
FIRST_LINE = "the first line, and only that, holds the run"
RUN_FOLDER = "give the folder of a run, one that holds this file"
RESTORE = "restore the file, or name another run"

_ADAPTERS: dict[str, TypeAdapter[Any]] = {}
_WHOLE: dict[str, tuple[str, ...]] = {}  # fields


def read_recording(
    folder: Path, each: Callable[[Sequence[Callable[[], Any]]], Sequence[Any]] | None = None
) -> Recording:
    """The Recording in a run's folder, whether the run ended or was cut short.

    `each` calls functions and returns their results, by default one after the other: two that take about
    as long, the second of which may run in another process.
    Raises RecordingError if a file is absent, foreign, damaged before its end, or too large.
    """
    folder = Path(folder)
    shares: list[Callable[[], Any]] = [
        partial(_read_records_and_samples, folder),
        partial(_read_tables, folder),
    ]
    # Not in threads: both hold Python's lock most of the time, and passing it on costs more than is gained.
    first, read_tables = [share() for share in shares] if each is None else each(shares)
    recording: Recording = first[0]
    for path, table in read_tables.items():
        _put_table(recording, path, table)
    _put_samples(recording, first[1])
    _require_tables(folder, recording, first[1])
    if recording.count() > MANY:
        give_memory_back()
    return recording


def give_memory_back() -> None:
    """Return temporary memory to the system: reading a large recording takes as much again as it keeps."""
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
                    f"{path}: is empty: the run was cut short before its first line; name another run"
                )
            try:
                run = record_of_line(first)
                if not isinstance(run, RunInfo):
                    raise ValueError(FIRST_LINE)
            except ValueError as error:
                raise _line_error(path, 1, first, error) from None
            recording = Recording(run)
            _read_lines(path, file, recording)
            return recording
    except FileRefusedError as refused:
        raise RecordingError(f"{refused}; {RUN_FOLDER}") from None
    except OSError as error:
        raise RecordingError(
            f"{path}: {error.strerror or error}; make it readable, or name another run"
        ) from None


def _read_lines(path: Path, file: IO[bytes], recording: Recording) -> None:
    """The lines after the first."""
    for number, line in enumerate(_lines(file), 2):
        try:
            record = record_of_line(line)
            if isinstance(record, RunInfo):
                raise ValueError(FIRST_LINE)
        except ValueError as error:
            if not line.endswith(b"\n") and len(line) <= RECORDING_LINE_BYTES_MAX:  # the last one
                _note(recording, f"{path.name} is cut off in line {number}; read up to there")
                return
            raise _line_error(path, number, line, error) from None
        recording.add(record)


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    while line := file.readline(RECORDING_LINE_BYTES_MAX + 1):
        yield line


def record_of_line(line: bytes) -> Any:
    """The record of one line of recording.jsonl. Raises ValueError (pydantic's is one)."""
    if len(line) > RECORDING_LINE_BYTES_MAX:
        raise ValueError(f"is longer than {RECORDING_LINE_BYTES_MAX} bytes")
    if has_too_many_values(line, LINE_VALUES_MAX):
        raise ValueError(f"has more than {LINE_VALUES_MAX} values, the most that a record can have")
    tag = _tag(line)
    if tag not in _ADAPTERS:
        _WHOLE[tag] = _whole_numbers(RECORD_TYPES[tag])
        _ADAPTERS[tag] = TypeAdapter(RECORD_TYPES[tag])
    record = _ADAPTERS[tag].validate_json(line, strict=True)
    for name in _WHOLE[tag]:
        value = getattr(record, name)
        if value is not None and value not in INT64:
            raise ValueError(f"{name} does not fit into 64 bits")
    return record


def _tag(line: bytes) -> str:
    """The type of a line's record. It comes first as a rule: then the line need not be parsed for it."""
    first = TYPE_FIRST.match(line)
    if first and first[1] != b"run" and all(line.find(one, first.end()) < 0 for one in PARSED_IF):
        tag: Any = first[1].decode()
    else:
        found = from_json(line, allow_inf_nan=False)
        tag = found.get("type") if isinstance(found, dict) else None
        version = found.get("schema_version") if tag == "run" else RECORDING_SCHEMA_VERSION
        if version != RECORDING_SCHEMA_VERSION:
            known = f"this rigproof reads {RECORDING_SCHEMA_VERSION}"
            raise ValueError(f"schema_version = {version!a:.40}: {known}")
    if not isinstance(tag, str) or tag not in RECORD_TYPES:
        raise ValueError(f"type = {tag!a:.40} is not one of {', '.join(RECORD_TYPES)}")
    return tag


def _whole_numbers(record: type) -> tuple[str, ...]:
    """The fields that hold an integer."""
    hints = get_type_hints(record).items()
    return tuple(
        name for name, hint in hints if int in (hint, *get_args(hint)) and get_origin(hint) is not tuple
    )


def _line_error(path: Path, number: int, line: bytes, error: ValueError) -> RecordingError:
    problem = first_problem(error) if isinstance(error, ValidationError) else one_line(str(error))
    beginning = one_line(line[:60].decode("utf-8", "replace").strip(), 60)
    return RecordingError(
        f"{path}: line {number}: {problem} (it begins {beginning!r}); "
        f"repair or delete that line, read it with the version of rigproof that wrote it, or name another run"
    )


def _note(recording: Recording, message: str) -> None:
    last_s = max((event.t_s for event in recording.events), default=0.0)
    recording.add(Event(last_s, "storage", "rig", message, data={"error": message}))


def _read_records_and_samples(folder: Path) -> tuple[Recording, tuple[Path, Samples] | None]:
    return _read_records(folder / RECORDING_FILE), _read_samples(folder)


def _read_samples(folder: Path) -> tuple[Path, Samples] | None:
    """The file and its samples; None if there is none."""
    opened = _open_table(folder, Path(PARQUET_FILE).stem)
    if opened is None:
        return None
    path, file = opened
    with file, _errors_naming(path):
        if path.suffix == TABLE:
            return path, tables.samples_from_parquet(
                file, again=partial(open_plain, path, RECORDING_BYTES_MAX)
            )
        return path, tables.samples_from_stream(file)


def _read_tables(folder: Path) -> dict[Path, RecordTable]:
    """The folder's other tables, by file; large ones that every judgement needs already grouped."""
    names = sorted({path.stem for path in _listed(folder) if path.suffix in (STREAM, TABLE)})
    names = [name for name in names if name != Path(PARQUET_FILE).stem and NAME.fullmatch(name)]
    if len(names) > TABLES_MAX:
        raise RecordingError(f"{folder}: {len(names)} tables are more than the {TABLES_MAX} of any run")
    reserved = {table_name(GpuSample), table_name(HostSample)}
    read_tables = {}
    for name in names:
        opened = _open_table(folder, name)
        if opened is None:
            continue
        path, file = opened
        with file, _errors_naming(path):
            if name in reserved:
                raise tables.DamagedError(f"samples belong into {PARQUET_FILE}")
            if path.suffix == TABLE:
                read_tables[path] = tables.table_from_parquet(file, name)
            elif table := tables.table_from_stream(file, name):
                read_tables[path] = table
    for path, table in read_tables.items():
        kind = GROUPED.get(path.stem)
        if kind is not None and len(table.rows) > MANY:
            with contextlib.suppress(TableError):  # `Recording.of` raises it again, if they are needed
                rows: Rows[Any] = table.rows.typed(kind)
                rows.subjects()
                read_tables[path] = replace(table, rows=rows)
    return read_tables


def _listed(folder: Path) -> Iterable[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # reading recording.jsonl reports why
        return ()


@contextlib.contextmanager
def _errors_naming(path: Path) -> Iterator[None]:
    """Raise a DamagedError as a RecordingError that names the file."""
    try:
        yield
    except tables.DamagedError as error:
        raise RecordingError(f"{path}: {error}; {RESTORE}") from None


def _put_table(recording: Recording, path: Path, table: RecordTable) -> None:
    """Raises RecordingError if the table is another run's."""
    _require_own(recording, path, table.run_id)
    if not table.whole:
        _note(recording, f"{path.name} is cut off after {len(table.rows)} records; read up to there")
    recording.tables[path.stem] = table.rows


def _put_samples(recording: Recording, read: tuple[Path, Samples] | None) -> None:
    """Raises RecordingError if the samples are another run's."""
    if read is None:
        _note(recording, f"neither {PARQUET_FILE} nor {STREAM_FILE} is there: no samples to judge")
        return
    path, samples = read
    if not samples.whole:
        _note(recording, f"{STREAM_FILE} is cut off after {samples.rows} samples; read up to there")
    _require_own(recording, path, samples.run_id)
    recording.tables[table_name(GpuSample)] = samples.gpu
    recording.tables[table_name(HostSample)] = samples.host


def _require_tables(folder: Path, recording: Recording, read: tuple[Path, Samples] | None) -> None:
    """RecordingError if a table that the run has written is not there any more: it is no work left undone."""
    for name in read[1].tables if read else ():
        if name not in recording.tables:
            lost = folder / f"{one_line(name, 80)}{TABLE}"
            raise RecordingError(f"{lost}: is missing, though the run wrote it; {RESTORE}")


def _require_own(recording: Recording, path: Path, run_id: str) -> None:
    if run_id and run_id != recording.run.run_id:
        raise RecordingError(
            f"{path}: run_id = {one_line(run_id, 80)} is not the run of {RECORDING_FILE} "
            f"({one_line(recording.run.run_id, 80)}); {RESTORE}"
        )


def _open_table(folder: Path, name: str) -> tuple[Path, IO[bytes]] | None:
    """The table, or the stream if there is no table yet; None if neither exists."""
    for suffix in (TABLE, STREAM, TABLE):  # a run that ends in between replaces the stream by the table
        path = folder / f"{name}{suffix}"
        try:
            if os.path.lexists(path):
                require_inside(path, folder)
                return path, open_plain(path, RECORDING_BYTES_MAX)
        except FileRefusedError as refused:
            if os.path.lexists(path):
                raise RecordingError(f"{refused}; {RESTORE}") from None
    return None
