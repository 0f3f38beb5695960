"""Samples as columns: the one Arrow table that holds GPU and host samples of a run.

A row is one sample. `kind` is "gpu" or "host"; columns that only the other kind has are null. None is
null, and so is a number that is not finite (`rigproof.records.disk.clean`). The schema's metadata names
the run, each field's metadata its unit. pyarrow is imported where it is used: planning a run needs none.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from rigproof.records.columns import Column, FlatLists, Lists
from rigproof.records.disk.collecting import Collected, Source, arrow_from, column_from
from rigproof.records.recording import Sample
from rigproof.records.rows import Rows
from rigproof.records.samples import GpuSample, HostSample

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

TELEMETRY_SCHEMA_VERSION = 1
EAGER_ROWS = 200_000  # with more, lists are read only when needed
KINDS: dict[str, type[GpuSample] | type[HostSample]] = {"gpu": GpuSample, "host": HostSample}
INTEGERS = ("clock_event_reasons", "pcie_generation", "pcie_width", "pcie_replays")
LISTS = ("core_percent", "wakeup_delays_ms")
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


def column_names() -> tuple[str, ...]:
    """Every column, in the file's order: kind, time and subject first, then the fields of both kinds."""
    names = dict.fromkeys(("kind", "t_s", "subject"))
    for kind in KINDS.values():
        names.update(dict.fromkeys(field.name for field in fields(kind)))
    return tuple(names)


def unit_of(column: str) -> str:
    """The unit named by a column's suffix; empty if it has none."""
    matching = [suffix for suffix in UNITS if column.endswith(suffix)]
    return UNITS[max(matching, key=len)] if matching else ""


def required_columns() -> frozenset[str]:
    """Columns that are never null: those whose field does not default to None ("not supported here")."""
    required = {"kind"}
    for kind in KINDS.values():
        required.update(field.name for field in fields(kind) if field.default is not None)
    return frozenset(required)


def schema(run_id: str, tables: Sequence[str] = ()) -> "pa.Schema":
    """The table's schema, with `schema_version` and `run_id` in its metadata.

    `tables`: the names of the other tables that the run has written, so that a lost one is noticed.
    """
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
    if tables:
        metadata["tables"] = " ".join(tables)
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


def batches(rows: Rows[Any], kind: str, run_id: str, most: int) -> "Iterator[pa.RecordBatch]":
    """The samples of one kind in the order in which they were added, at most `most` in a batch."""
    import pyarrow as pa  # noqa: PLC0415

    layout = schema(run_id)
    columns, order = rows.as_they_came()
    for start in range(0, len(order), most):
        part = order[start : start + most]
        made = [
            pa.array([kind] * len(part), field.type)
            if field.name == "kind"
            else arrow_from(columns[field.name], part, field.type)
            if field.name in columns
            else pa.nulls(len(part), field.type)
            for field in layout
        ]
        yield pa.RecordBatch.from_arrays(made, schema=layout)


def problems(found: "pa.Schema") -> list[str]:
    """Why a file's schema is not ours: a missing column, another type, another version; empty if it is.

    A sensor that a run did not sample may be missing.
    """
    metadata = found.metadata or {}
    version = metadata.get(b"schema_version", b"").decode("utf-8", "replace")
    if version != str(TELEMETRY_SCHEMA_VERSION):
        return [f"schema_version = {version or 'absent'}: this rigproof reads {TELEMETRY_SCHEMA_VERSION}"]
    differences = []
    for field in schema(""):
        place = found.get_field_index(field.name)
        if place < 0 and (not field.nullable or field.name in LISTS):
            differences.append(f"column {field.name} is missing")
        elif place >= 0 and found.field(place).type != field.type:
            differences.append(f"column {field.name} holds {found.field(place).type}, not {field.type}")
    return differences


def completed(source: Source, found: "pa.Schema") -> Source:
    """The same table, with empty columns for the sensors that its run did not sample."""
    import pyarrow as pa  # noqa: PLC0415

    absent = {field.name: field.type for field in schema("") if found.get_field_index(field.name) < 0}

    def column(name: str) -> "pa.ChunkedArray":
        if name not in absent:
            return source.column(name)
        return pa.chunked_array([pa.nulls(len(source.column("kind")), absent[name])])

    return replace(source, column=column) if absent else source


def samples_of(source: Source) -> tuple[Rows[GpuSample], Rows[HostSample]]:
    """The samples of a table whose schema has no `problems`, in their order.

    Raises ValueError if a row lacks a required value or is of an unknown kind.
    """
    import numpy as np  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    kinds = source.column("kind")
    places = {kind: np.flatnonzero(pc.equal(kinds, kind).fill_null(False).to_numpy()) for kind in KINDS}
    strays = len(kinds) - sum(map(len, places.values()))
    if strays:
        raise ValueError(f"{strays} of {len(kinds)} rows have a `kind` other than {', '.join(KINDS)}")
    gpu, host = _columns(source, places)
    return Rows(GpuSample, gpu), Rows(HostSample, host)


def _columns(source: Source, places: "Mapping[str, npt.NDArray[np.intp]]") -> list[dict[str, Column]]:
    """The columns of each kind, whose rows are at these places.

    Made one column after the other, so that they are never all in memory twice.
    """
    made: dict[str, dict[str, Column]] = {kind: {} for kind in KINDS}
    for name in column_names():
        kinds = [kind for kind, record in KINDS.items() if name in {field.name for field in fields(record)}]
        if name in LISTS:
            for kind in kinds:
                made[kind][name] = Lists(_list_reader(source, name, places[kind]))
                if len(places[kind]) <= EAGER_ROWS:
                    made[kind][name].plain(slice(0, 0))
        elif kinds:
            values = source.column(name)
            for kind in kinds:
                made[kind][name] = _column(values, places[kind], kind, name)
    return [made[kind] for kind in KINDS]


def _column(values: "pa.ChunkedArray", places: "npt.NDArray[np.intp]", kind: str, name: str) -> Column:
    own = _at(values, places)
    if name in required_columns() and own.null_count:
        raise ValueError(f"{own.null_count} {kind} rows have no {name}")
    column = column_from(own)
    if name in required_columns() and column.gaps:
        raise ValueError(f"{kind} rows have a {name} that is not a finite number")
    return column


def _at(values: "pa.ChunkedArray", places: "npt.NDArray[np.intp]") -> "pa.ChunkedArray":
    """The values at these places; in the file of a finished run, those of one kind are contiguous.

    Raises ValueError if the column is shorter than the others.
    """
    _require_rows(len(values), places)
    if len(places) and places[-1] - places[0] + 1 == len(places):
        return values.slice(int(places[0]), len(places))
    return values.take(places)


def _require_rows(rows: int, places: "npt.NDArray[np.intp]") -> None:
    if len(places) and places[-1] >= rows:
        raise ValueError(f"a column ends after {rows} rows")


def _list_reader(source: Source, name: str, places: "npt.NDArray[np.intp]") -> Callable[[], FlatLists]:
    """Reads a column of lists."""

    def load() -> FlatLists:
        import numpy as np  # noqa: PLC0415
        import pyarrow.compute as pc  # noqa: PLC0415

        values, lengths, known, row = Collected(), [np.zeros(1, np.int64)], [np.zeros(0, np.bool_)], 0
        for piece in source.lists(name):
            begin, end = np.searchsorted(places, (row, row + len(piece)))
            if begin < end:
                own = _at(piece, places[begin:end] - row)
                values.add(pc.list_flatten(own).to_numpy())
                lengths.append(pc.list_value_length(own).fill_null(0).to_numpy())
                known.append(own.is_valid().to_numpy())
            row += len(piece)
        _require_rows(row, places)
        return values.column(), np.cumsum(np.concatenate(lengths), dtype=np.int64), np.concatenate(known)

    return load
