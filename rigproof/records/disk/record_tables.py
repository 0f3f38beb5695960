"""Records of one type as a self-describing Arrow table.

It has the type's name (`reward_batch`); a column is a field, and `labels.precision` is a label. The
schema's metadata names the table and the run. A reader needs no list of types: it checks that a table has
this form, and keeps it until its records are requested (`Recording.of`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rigproof.records.columns import Coded, Column
from rigproof.records.disk.collecting import arrow_from, column_from
from rigproof.records.fields import LABELS, NAME, kinds_of
from rigproof.records.rows import Rows

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_SCHEMA_VERSION = 1
COLUMNS_MAX = 64
LabelKinds = Mapping[str, type]


def arrow_types() -> "dict[type, pa.DataType]":
    """The Arrow type for each type that a field may hold."""
    import pyarrow as pa  # noqa: PLC0415

    return {float: pa.float64(), int: pa.int64(), str: pa.string(), bool: pa.bool_()}


def labels_in(records: Sequence[Any]) -> LabelKinds:
    """The labels of these records with their types; none if the records have no labels field."""
    all_labels = [getattr(record, LABELS, {}) for record in records]
    return {name: type(value) for labels in all_labels for name, value in labels.items()}


def schema(record: type, name: str, run_id: str, labels: LabelKinds) -> "pa.Schema":
    """The schema for a type's records that have no labels but these."""
    import pyarrow as pa  # noqa: PLC0415

    types = arrow_types()
    columns = [
        pa.field(field.name, types[field.kind], nullable=field.optional)
        for field in kinds_of(record)
        if field.kind is not dict
    ]
    columns += [pa.field(f"{LABELS}.{label}", types[labels[label]]) for label in sorted(labels)]
    return pa.schema(columns, metadata=_metadata(name, run_id))


def batch(records: Sequence[Any], layout: "pa.Schema") -> "pa.RecordBatch":
    """Records, in their order, as one record batch."""
    import pyarrow as pa  # noqa: PLC0415

    def value(record: Any, name: str) -> Any:
        field, _, label = name.partition(".")
        return getattr(record, LABELS).get(label) if label else getattr(record, field)

    arrays = [pa.array([value(record, field.name) for record in records], field.type) for field in layout]
    return pa.RecordBatch.from_arrays(arrays, schema=layout)


def batches(rows: Rows[Any], name: str, run_id: str, most: int) -> "Iterator[pa.RecordBatch]":
    """Records in the order in which they were added, at most `most` in a batch; at least one batch."""
    import pyarrow as pa  # noqa: PLC0415

    columns, order = rows.as_they_came()
    if rows.record is None:
        types = arrow_types()
        layout = pa.schema(
            [pa.field(column, types[kind]) for column, kind in rows.kinds.items()],
            metadata=_metadata(name, run_id),
        )
    else:
        labels = columns.get(LABELS)
        distinct = labels.distinct if isinstance(labels, Coded) else []
        label_kinds = {label: type(value) for one in distinct for label, value in one.items()}
        layout = schema(rows.record, name, run_id, label_kinds)
        if isinstance(labels, Coded):
            columns = {**columns, **{f"{LABELS}.{label}": _one_label(labels, label) for label in label_kinds}}
    for start in range(0, max(1, len(order)), most):
        part = order[start : start + most]
        arrays = [arrow_from(columns[field.name], part, field.type) for field in layout]
        yield pa.RecordBatch.from_arrays(arrays, schema=layout)


def _one_label(labels: Coded, label: str) -> Coded:
    return Coded(labels.array, [value.get(label) for value in labels.distinct])


def problems(found: "pa.Schema", name: str) -> list[str]:
    """Why a file's schema is not a table of ours: another name or version, an unknown column."""
    metadata = {key.decode("utf-8", "replace"): value for key, value in (found.metadata or {}).items()}
    version = metadata.get("schema_version", b"").decode("utf-8", "replace")
    if version != str(TABLE_SCHEMA_VERSION):
        return [f"schema_version = {version or 'absent'}: this rigproof reads {TABLE_SCHEMA_VERSION}"]
    if metadata.get("table") != name.encode():
        return [f"table = {metadata.get('table', b'')!a:.40} is not the name of its file"]
    if len(found.names) > COLUMNS_MAX or len(set(found.names)) < len(found.names):
        return [f"{len(found.names)} columns are too many, or two have the same name"]
    known = arrow_types()
    wrong = [f"column {name!a:.80} is not a field's name" for name in found.names if not _is_name(name)]
    wrong += [
        f"column {field.name} holds {field.type}, which no field does"
        for field in found
        if _is_name(field.name) and field.type not in known.values()
    ]
    for needed, kind in (("t_s", float), ("subject", str)):
        place = found.get_field_index(needed)
        if place < 0 or found.field(place).type != known[kind]:
            wrong.append(f"column {needed} is missing, or does not hold {known[kind]}")
    return wrong


def rows_of(source: "Callable[[str], pa.ChunkedArray]", layout: "pa.Schema") -> Rows[Any]:
    """The rows of a table whose schema has no `problems`; their type is not known yet.

    Raises TableError if a row lacks its time or subject.
    """
    kinds = {kind: ours for ours, kind in arrow_types().items()}
    columns: dict[str, Column] = {field.name: column_from(source(field.name)) for field in layout}
    rows: Rows[Any] = Rows(None, columns, {field.name: kinds[field.type] for field in layout})
    rows.required("t_s", "subject")
    return rows


def _is_name(name: str) -> bool:
    first, dot, label = name.partition(".")
    return bool(NAME.fullmatch(first)) and (not dot or (first == LABELS and bool(NAME.fullmatch(label))))


def _metadata(name: str, run_id: str) -> dict[str, str]:
    return {"schema_version": str(TABLE_SCHEMA_VERSION), "table": name, "run_id": run_id}
