"""`rigproof history import`: earlier files of pytest-benchmark, plain or rigproof's, as runs of a history.

They are marked as imported: they are listed and compared, and no run is judged by them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pytest_benchmark.utils import safe_dumps

from rigproof.history.names import IMPORTED
from rigproof.history.reading import Kept, StoredFile, Text, read_history
from rigproof.history.storage import without_rounds
from rigproof.profiles.tables.base import Name
from rigproof.records.disk.durable import replacing
from rigproof.records.limits import HISTORY_BYTES_MAX, FileRefusedError, read_document, require_inside
from rigproof.records.message_text import first_problem

OWN = {"title", "unit", "subject"}  # what rigproof has always written beside a benchmark
# What pytest-benchmark's own comparison reads of a benchmark: without one of them it would fail for all runs.
READ = ("min", "max", "mean", "stddev", "median", "iqr", "rounds", "iterations")


class _Benchmark(BaseModel):
    group: Text | None
    name: Text
    fullname: Text
    stats: dict[str, Any]
    extra_info: dict[str, Any] = {}


class _Source(BaseModel):
    datetime: str
    machine_info: dict[str, Any]
    commit_info: dict[str, Any] = {}
    benchmarks: list[_Benchmark] = Field(min_length=1)


class Import(NamedTuple):
    """A checked file: `text` is what is written."""

    source: Path
    rig: str
    measured_at: str
    text: bytes


def checked(files: Sequence[Path], history: Path, rig: str | None = None) -> list[Import]:
    """The files as they would be kept in `history`, the folder of all rigs; nothing is written.

    `rig`: to whose history they are added; None: that of the rig, or else of the host, which the file names.
    Raises FileRefusedError for a file that is damaged, none of pytest-benchmark's, or simulated.
    """
    found = []
    for path in files:
        try:
            found.append(_of_file(path, history, rig))
        except (ValueError, RecursionError) as error:
            why = first_problem(error) if isinstance(error, ValidationError) else str(error)
            raise FileRefusedError(path, why) from None
    return found


def write(found: Sequence[Import], history: Path) -> Iterator[str]:
    """Keep what is not known; a line for each file. Raises OSError: then none of them is kept."""
    written: list[Path] = []
    try:
        for one in found:
            folder, day = history / one.rig, one.measured_at[:10]
            known = {}
            for kept in read_history(folder).everything:
                with suppress(ValueError):  # what is no date is no run that can be imported
                    known[_utc(kept.measured_at)] = kept.number
            if one.measured_at in known:
                yield f"{one.source}: it is there already, as {known[one.measured_at]} of {one.rig}"
                continue
            folder.mkdir(parents=True, exist_ok=True)
            numbers = [int(path.name[:4]) for path in folder.glob("[0-9][0-9][0-9][0-9]_*.json")]
            number = f"{max(numbers, default=0) + 1:04}"
            written.append(folder / f"{number}_{IMPORTED}{day}.json")
            with replacing(written[-1]) as file:
                file.write(one.text)
            yield f"{one.source}: imported as {number} of {one.rig}, of {day}"
    except OSError:
        for path in written:
            path.unlink(missing_ok=True)
        raise


def _of_file(path: Path, history: Path, rig: str | None) -> Import:
    """The file with what the history needs beside each benchmark. Raises ValueError, FileRefusedError."""
    document = json.loads(read_document(path, HISTORY_BYTES_MAX))
    source = _Source.model_validate(document)
    machine, measured_at = source.machine_info, _utc(source.datetime)
    name = rig if rig is not None else machine.get("rig") or machine.get("node")
    try:
        name = TypeAdapter(Name).validate_python(name, strict=True)
    except ValidationError:
        raise ValueError(f"{name!r} is no name of a rig; give it another by --rig NAME") from None
    require_inside(history / name, history.parent)
    benchmarks = []
    for one, raw in zip(source.benchmarks, document["benchmarks"], strict=True):
        if one.extra_info.get("simulated"):
            raise ValueError("a simulated run's; it can have a history by --keep-history alone")
        if wrong := [key for key in READ if not isinstance(one.stats.get(key), int | float)]:
            raise ValueError(f"{one.fullname}: stats.{wrong[0]} is no number")
        own = one.extra_info if one.extra_info.keys() >= OWN else _of_others(one, source)
        rate = one.stats.get("ops") or 1 / (one.stats["mean"] or 1e-99)  # before 3.1 there was no `ops`
        benchmarks.append({**raw, "extra_info": {"rate": rate, "gpu_uuid": None, **own, "imported": True}})
    kept = without_rounds({**document, "datetime": measured_at, "benchmarks": benchmarks})
    text = safe_dumps(kept, ensure_ascii=True, indent=1).encode()
    StoredFile.model_validate_json(text)
    return Import(path, name, measured_at, text)


def _of_others(one: _Benchmark, source: _Source) -> Mapping[str, Any]:
    """What a plain benchmark of a host's CPU tells of itself; its own extra information stays."""
    machine, cpu = source.machine_info, source.machine_info.get("cpu")
    known = {"commit": str(source.commit_info.get("id") or "")[:12], "python": machine.get("python_version")}
    return {
        **{name: value for name, value in one.extra_info.items() if name not in Kept.model_fields},
        "title": one.fullname,
        "unit": "ops/s",
        "subject": machine.get("node"),
        "gpu_uuid": machine.get("node"),  # the host, in the place of a card
        "gpu_name": cpu.get("brand_raw") if isinstance(cpu, dict) else None,
        "tags": [f"{name}={value}" for name, value in known.items() if value],
    }


def _utc(text: str) -> str:
    """A moment in UTC; pytest-benchmark's older versions wrote it without a zone. ValueError."""
    moment = datetime.fromisoformat(text)
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    except OverflowError:
        raise ValueError(f"datetime: {text}: before the year 1 or after 9999, in UTC") from None
