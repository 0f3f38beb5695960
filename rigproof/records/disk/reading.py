"""Reads a run's files back into a Recording; errors say what is wrong with a file that is not valid.

Of a crashed run the parts of its tables are read, and recording.jsonl up to a torn last line. What is lost
is an Event of kind "storage", so that every output of a later judgement can report it.
"""

import contextlib
import ctypes
import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from rigproof.records.disk.clean import INT64
from rigproof.records.disk.table_files import DamagedError, Opened, Table, read_parts, read_table
from rigproof.records.disk.tables import KINDS, TABLE, TELEMETRY, part_files
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
from rigproof.records.measurements import BootReading, Event, ForeignMemory, GpuCounters, Stage
from rigproof.records.message_text import first_problem, one_line
from rigproof.records.processes import GpuProcess, ProcessWatch
from rigproof.records.recording import RecordedPlan, Recording, RecordingError

RECORDING_SCHEMA_VERSION = 1
RECORDING_FILE = "recording.jsonl"
PARQUET_FILE = f"{TELEMETRY}{TABLE}"
SAMPLES = tuple(map(table_name, KINDS.values()))
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
MANY = 1_000_000  # records
LONG = re.compile(rb"\d{19}")  # 64 bits hold shorter numbers
FIRST_LINE = "the first line, and only that, holds the run"
RUN_FOLDER = "give the folder of a run, one that holds this file"
RESTORE = "restore the file, or name another run"

_ADAPTERS: dict[str, TypeAdapter[Any]] = {}


def read_recording(folder: Path) -> Recording:
    """The Recording in a run's folder, whether the run ended or was cut short.

    Raises RecordingError if a file is absent, foreign, damaged before its end, or too large.
    """
    folder = Path(folder)
    recording = _read_records(folder / RECORDING_FILE)
    samples, tables = _read_samples(folder), _read_tables(folder)
    for path, table in (samples | tables).items():
        _require_own(recording, path, table.run_id)
        recording.tables.update(table.rows)
    if not samples:
        _note(recording, f"neither {PARQUET_FILE} nor its parts are there: no samples to judge")
    for name in (name for table in samples.values() for name in table.others):
        if name not in recording.tables:
            lost = folder / f"{one_line(name, 80)}{TABLE}"
            raise RecordingError(f"{lost}: is missing, though the run wrote it; {RESTORE}")
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
        _ADAPTERS[tag] = TypeAdapter(RECORD_TYPES[tag])
    return _ADAPTERS[tag].validate_json(line, strict=True)


def _tag(line: bytes) -> str:
    """The type of a line's record."""
    found = from_json(line, allow_inf_nan=False)
    if LONG.search(line):
        _require_64_bits(found, "a value")
    tag = found.get("type") if isinstance(found, dict) else None
    if tag == "run" and found.get("schema_version") != RECORDING_SCHEMA_VERSION:
        version, known = found.get("schema_version"), f"this rigproof reads {RECORDING_SCHEMA_VERSION}"
        raise ValueError(f"schema_version = {version!a:.40}: {known}")
    if not isinstance(tag, str) or tag not in RECORD_TYPES:
        raise ValueError(f"type = {tag!a:.40} is not one of {', '.join(RECORD_TYPES)}")
    return tag


def _require_64_bits(value: Any, name: str) -> None:
    """Every whole number, also inside an event's data, as writing leaves none that is longer."""
    if isinstance(value, dict):
        for key, item in value.items():
            _require_64_bits(item, key)
    elif isinstance(value, list):
        for item in value:
            _require_64_bits(item, name)
    elif isinstance(value, int) and value not in INT64:
        raise ValueError(f"{name:.40} does not fit into 64 bits")


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


def _read_samples(folder: Path) -> dict[Path, Table]:
    """The samples, by their one file or by the folders of parts of a run that has not ended."""
    found: dict[Path, Table] = {}
    for name in SAMPLES:
        found.update(_read_table(folder / PARQUET_FILE, folder / name))
        if folder / PARQUET_FILE in found:
            return {folder / PARQUET_FILE: found[folder / PARQUET_FILE]}
    return found


def _read_tables(folder: Path) -> dict[Path, Table]:
    """The other tables, by their files or folders of parts."""
    names = _names(folder) - {TELEMETRY, *SAMPLES}
    if len(names) > TABLES_MAX:
        raise RecordingError(f"{folder}: {len(names)} tables are more than the {TABLES_MAX} of any run")
    found: dict[Path, Table] = {}
    for name in sorted(names):
        found.update(_read_table(folder / f"{name}{TABLE}", folder / name))
    return found


def _names(folder: Path) -> set[str]:
    """The names of the tables in a run's folder."""
    try:
        return {
            path.stem
            for path in folder.iterdir()
            if NAME.fullmatch(path.stem) and (path.suffix == TABLE or (not path.suffix and part_files(path)))
        }
    except OSError:  # reading recording.jsonl reports why
        return set()


def _read_table(file: Path, parts: Path) -> dict[Path, Table]:
    """A table by its file or by the folder of its parts; empty if there is neither."""
    if not os.path.lexists(file):
        try:
            with _errors_naming(parts):
                openings = [_opening(part, file.parent) for part in _parts(parts)]
                if openings:
                    return {parts: read_parts(openings, parts.name)}
        except RecordingError:
            if not os.path.lexists(file):
                raise
        if not os.path.lexists(file):  # else the run has ended in between, and replaced the parts by it
            return {}
    with _errors_naming(file):
        return {file: read_table(_opening(file, file.parent), file.stem)}


@contextlib.contextmanager
def _errors_naming(path: Path) -> Iterator[None]:
    """Raise what is wrong with a table's file as a RecordingError that names it."""
    try:
        yield
    except FileRefusedError as refused:
        raise RecordingError(f"{refused}; {RESTORE}") from None
    except (DamagedError, OSError) as error:
        raise RecordingError(f"{path}: {error}; {RESTORE}") from None


def _opening(path: Path, folder: Path) -> Opened:
    """Opens a table. FileRefusedError if it is a link out of the run's folder."""
    require_inside(path, folder)
    return partial(open_plain, path, RECORDING_BYTES_MAX)


def _parts(folder: Path) -> list[Path]:
    """The files of a folder's parts. DamagedError if one between them is missing."""
    numbered = part_files(folder)
    for expected, (number, path) in enumerate(numbered):
        if number != expected:
            raise DamagedError(f"the part before {path.name} is missing")
    return [path for _, path in numbered]


def _require_own(recording: Recording, path: Path, run_id: str) -> None:
    if run_id and run_id != recording.run.run_id:
        raise RecordingError(
            f"{path}: run_id = {one_line(run_id, 80)} is not the run of {RECORDING_FILE} "
            f"({one_line(recording.run.run_id, 80)}); {RESTORE}"
        )
