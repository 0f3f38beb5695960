"""Records as self-describing Arrow tables, and the parquet files that hold them.

A table has the name of its records' type (`reward_batch`); a column is a field, and `labels.precision` is a
label. The schema's metadata names the table and the run, each field's metadata its unit. A reader needs no
list of types: it checks that a table has this form, and keeps it until its records are requested
(`Recording.of`).

telemetry.parquet, which users query, holds the tables of two types: its column `kind` is "gpu" or "host", and
columns that only the other kind has are null.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rigproof.records.columns import Coded, Column
from rigproof.records.disk.arrow_columns import arrow_from
from rigproof.records.disk.durable import replacing
from rigproof.records.fields import LABELS, NAME, kinds_of
from rigproof.records.rows import Rows
from rigproof.records.samples import GpuSample, HostSample

if TYPE_CHECKING:
    import pyarrow as pa

TABLE = ".parquet"
TELEMETRY = "telemetry"
KIND = "kind"
KINDS: dict[str, type] = {"gpu": GpuSample, "host": HostSample}
TABLE_SCHEMA_VERSION = 1
COLUMNS_MAX = 64
ROW_GROUP = 65536
PART = re.compile(r"[0-9]{6,9}")  # the name of a part, without its suffix
# The longest matching suffix names the unit.
UNITS = {
    "_percent": "%",
    "_mib": "MiB",
    "_c": "°C",
    "_w": "W",
    "_j": "J",
    "_mhz": "MHz",
    "_s": "s",
    "_ms": "ms",
}


def arrow_types() -> "dict[type, pa.DataType]":
    """The Arrow type for each type that a field may hold."""
    import pyarrow as pa  # noqa: PLC0415

    return {
        float: pa.float64(),
        int: pa.int64(),
        str: pa.string(),
        bool: pa.bool_(),
        tuple: pa.list_(pa.float64()),
    }


def python_type(kind: "pa.DataType") -> type:
    """The type that a field may hold, of an Arrow type, whatever the elements of a list are called."""
    return next(ours for ours, known in arrow_types().items() if known == kind)


def schema(record: type, name: str, run_id: str, labels: Mapping[str, type]) -> "pa.Schema":
    """The schema for a type's records that have no labels but these."""
    import pyarrow as pa  # noqa: PLC0415

    types = arrow_types()
    columns = [
        pa.field(field.name, types[field.kind], nullable=field.optional, metadata=_unit(field.name))
        for field in kinds_of(record)
        if field.kind is not dict
    ]
    columns += [pa.field(f"{LABELS}.{label}", types[labels[label]]) for label in sorted(labels)]
    return pa.schema(columns, metadata=_metadata(name, run_id))


def schema_of(rows: Rows[Any], name: str, run_id: str) -> "pa.Schema":
    """The schema for these records, with a column for each label that one of them has."""
    assert rows.record is not None, f"{name}: written before its type was known"
    found = rows.columns.get(LABELS)
    distinct = found.distinct if isinstance(found, Coded) else []
    labels = {label: type(value) for one in distinct for label, value in one.items()}
    return schema(rows.record, name, run_id, labels)


def telemetry_schema(run_id: str, tables: Sequence[str] = ()) -> "pa.Schema":
    """The schema of telemetry.parquet: kind, time and subject first, then the fields of both kinds.

    `tables`: the names of the other tables that the run has written, so that a lost one is noticed.
    """
    import pyarrow as pa  # noqa: PLC0415

    columns = {KIND: pa.field(KIND, pa.string(), nullable=False)}
    for record in KINDS.values():
        for field in schema(record, TELEMETRY, run_id, {}):
            columns.setdefault(field.name, field)
    metadata = _metadata(TELEMETRY, run_id) | ({"tables": " ".join(tables)} if tables else {})
    return pa.schema(list(columns.values()), metadata=metadata)


def batches(rows: Rows[Any], layout: "pa.Schema", kind: str | None = None) -> "Iterator[pa.RecordBatch]":
    """The records in the order in which they were added; a column of the layout that they lack is null.

    `kind` is what telemetry.parquet calls them.
    """
    import pyarrow as pa  # noqa: PLC0415

    found, order = rows.as_they_came()
    columns: dict[str, Column] = dict(found)
    labels = columns.get(LABELS)
    if isinstance(labels, Coded):
        for label in {label for one in labels.distinct for label in one}:
            columns[f"{LABELS}.{label}"] = Coded(labels.array, [one.get(label) for one in labels.distinct])
    if kind is not None:
        columns[KIND] = Coded(np.zeros(len(order), np.uint8), [kind])
    for start in range(0, len(order), ROW_GROUP):
        part = order[start : start + ROW_GROUP]
        arrays = [
            arrow_from(columns[field.name], part, field.type)
            if field.name in columns
            else pa.nulls(len(part), field.type)
            for field in layout
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=layout)


def write_table(path: Path, layout: "pa.Schema", parts: "Iterable[pa.RecordBatch]") -> None:
    """Write a parquet file; it has its name once it is whole and on the disk. Raises OSError."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    with replacing(path) as file, pq.ParquetWriter(file, layout, compression="zstd") as writer:
        for part in parts:
            writer.write_batch(part)


def problems(found: "pa.Schema", name: str) -> list[str]:
    """Why a file's schema is not that of a table of ours; empty if it is."""
    metadata = {key.decode("utf-8", "replace"): value for key, value in (found.metadata or {}).items()}
    version = metadata.get("schema_version", b"").decode("utf-8", "replace")
    if version != str(TABLE_SCHEMA_VERSION):
        return [f"schema_version = {version or 'absent'}: this rigproof reads {TABLE_SCHEMA_VERSION}"]
    # Earlier versions named every table in its metadata but this one.
    if metadata.get("table", TELEMETRY.encode()) != name.encode():
        return [f"table = {metadata.get('table', b'')!a:.40} is not the name of its file"]
    if len(found.names) > COLUMNS_MAX or len(set(found.names)) < len(found.names):
        return [f"{len(found.names)} columns are too many, or two have the same name"]
    known = arrow_types()
    wrong = [f"column {column!a:.80} is not a field's name" for column in found.names if not _is_name(column)]
    wrong += [
        f"column {field.name} holds {field.type}, which no field does"
        for field in found
        if _is_name(field.name) and field.type not in known.values()
    ]
    needed: dict[str, type] = {"t_s": float, "subject": str} | ({KIND: str} if name == TELEMETRY else {})
    for column, kind in needed.items():
        place = found.get_field_index(column)
        if place < 0 or found.field(place).type != known[kind]:
            wrong.append(f"column {column} is missing, or does not hold {known[kind]}")
    return wrong


def part_files(folder: Path) -> list[tuple[int, Path]]:
    """The parts of a table that grows, by their numbers; none if there is no such folder. Raises OSError."""
    if not folder.is_dir():
        return []
    found = (path for path in folder.iterdir() if path.suffix == TABLE and PART.fullmatch(path.stem))
    return sorted((int(path.stem), path) for path in found)


def _is_name(name: str) -> bool:
    first, dot, label = name.partition(".")
    return bool(NAME.fullmatch(first)) and (not dot or (first == LABELS and bool(NAME.fullmatch(label))))


def _metadata(name: str, run_id: str) -> dict[str, str]:
    return {"schema_version": str(TABLE_SCHEMA_VERSION), "table": name, "run_id": run_id}


def _unit(column: str) -> dict[str, str] | None:
    """A field's metadata: the unit that the suffix of its name says."""
    matching = [suffix for suffix in UNITS if column.endswith(suffix)]
    return {"unit": UNITS[max(matching, key=len)]} if matching else None
