"""Samples as columns: the one Arrow table that holds GPU and host samples of a run.

A row is one sample. `kind` is "gpu" or "host"; a column that the other kind has is null there. None is
null; a number that is not finite is null too (`rigproof.records.clean`). The schema's metadata names
the run, each field's metadata its unit. pyarrow is imported where it is used: planning a run needs none.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from rigproof.records.recording import Sample
from rigproof.records.samples import GpuSample, HostSample

if TYPE_CHECKING:
    import pyarrow as pa

SampleType = TypeVar("SampleType", GpuSample, HostSample)

TELEMETRY_SCHEMA_VERSION = 1
KINDS: dict[str, type[GpuSample] | type[HostSample]] = {"gpu": GpuSample, "host": HostSample}
INTEGERS = ("clock_event_reasons", "pcie_generation", "pcie_width", "pcie_replays")
LISTS = ("core_percent", "wakeup_delays_ms")
# The longest suffix that fits names the unit.
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


def column_names() -> tuple[str, ...]:
    """Every column, in the file's order: kind, time and subject first, then the fields of both kinds."""
    names = dict.fromkeys(("kind", "t_s", "subject"))
    for kind in KINDS.values():
        names.update(dict.fromkeys(field.name for field in fields(kind)))
    return tuple(names)


def unit_of(column: str) -> str:
    """The unit that a column's name ends in; empty where it is a number without one."""
    fitting = [suffix for suffix in UNITS if column.endswith(suffix)]
    return UNITS[max(fitting, key=len)] if fitting else ""


def required_columns() -> frozenset[str]:
    """Columns that are never null: those whose field has no None for "not supported here"."""
    required = {"kind"}
    for kind in KINDS.values():
        required.update(field.name for field in fields(kind) if field.default is not None)
    return frozenset(required)


def schema(run_id: str) -> "pa.Schema":
    """The table's schema, with `schema_version` and `run_id` in its metadata."""
    import pyarrow as pa  # noqa: PLC0415

    def column(name: str) -> "pa.Field":
        if name in ("kind", "subject"):
            kind = pa.string()
        elif name in LISTS:
            kind = pa.list_(pa.float64())
        else:
            kind = pa.int64() if name in INTEGERS else pa.float64()
        unit = unit_of(name)
        metadata = {"unit": unit} if unit else None
        return pa.field(name, kind, nullable=name not in required_columns(), metadata=metadata)

    metadata = {"schema_version": str(TELEMETRY_SCHEMA_VERSION), "run_id": run_id}
    return pa.schema([column(name) for name in column_names()], metadata=metadata)


def batch(samples: Sequence[Sample], run_id: str) -> "pa.RecordBatch":
    """Samples, in their order, as one record batch."""
    import pyarrow as pa  # noqa: PLC0415

    layout = schema(run_id)
    kinds = ["gpu" if isinstance(sample, GpuSample) else "host" for sample in samples]
    columns = [pa.array(kinds, pa.string())]
    columns += [
        pa.array([getattr(sample, field.name, None) for sample in samples], field.type)
        for field in list(layout)[1:]
    ]
    return pa.RecordBatch.from_arrays(columns, schema=layout)


def problems(found: "pa.Schema") -> list[str]:
    """What keeps a file's schema from being ours: a missing column, another type, a newer version."""
    metadata = found.metadata or {}
    version = metadata.get(b"schema_version", b"").decode("utf-8", "replace")
    if version != str(TELEMETRY_SCHEMA_VERSION):
        return [f"schema_version = {version or 'absent'}: this rigproof reads {TELEMETRY_SCHEMA_VERSION}"]
    said = []
    for field in schema(""):
        place = found.get_field_index(field.name)
        if place < 0:
            said.append(f"column {field.name} is missing")
        elif found.field(place).type != field.type:
            said.append(f"column {field.name} holds {found.field(place).type}, not {field.type}")
    return said


def samples_of(table: "pa.Table") -> tuple[list[GpuSample], list[HostSample]]:
    """A table whose schema has no `problems` as samples, in their order.

    Raises ValueError where a row lacks what no sample lacks, or is of a kind that is not known.
    """
    gpu = _samples(table, "gpu", GpuSample)
    host = _samples(table, "host", HostSample)
    strays = table.num_rows - len(gpu) - len(host)
    if strays:
        raise ValueError(f"{strays} of {table.num_rows} rows are of no kind among {', '.join(KINDS)}")
    return gpu, host


def _samples(table: "pa.Table", kind: str, record: type[SampleType]) -> list[SampleType]:
    import pyarrow.compute as pc  # noqa: PLC0415

    rows = table.filter(pc.equal(table.column("kind"), kind))
    columns = []
    for field in fields(record):
        values = rows.column(field.name)
        if field.name in required_columns() and values.null_count:
            raise ValueError(f"{values.null_count} {kind} rows have no {field.name}")
        columns.append(_plain(values, field.name))
    return [record(*row) for row in zip(*columns, strict=True)]


def _plain(values: "pa.ChunkedArray", name: str) -> list[Any]:
    """A column as Python values: numbers that are not finite are None, lists are tuples."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    if name in LISTS:
        return [None if value is None else tuple(value) for value in values.to_pylist()]
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_finite(values), values, None)
    plain: list[Any] = values.to_pylist()
    return plain
