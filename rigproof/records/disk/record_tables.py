"""Records of one type as an Arrow table that says itself what it holds.

Its name is that of the type (`reward_batch`), a column is a field, and `labels.precision` is a label. The
schema's metadata names the table and the run. A reader needs no list of types: it checks that a table is one
of these, and holds it until somebody asks for its records (`Recording.of`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rigproof.records.disk.collecting import arrow_from, column_from
from rigproof.records.fields import LABELS, NAME, kinds_of
from rigproof.records.rows import Column, Rows, Words

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_SCHEMA_VERSION = 1
COLUMNS_MAX = 64
LabelKinds = Mapping[str, type]


def arrow_types() -> "dict[type, pa.DataType]":
    """What Arrow calls what a field may hold."""
    import pyarrow as pa  # noqa: PLC0415

    return {float: pa.float64(), int: pa.int64(), str: pa.string(), bool: pa.bool_()}


def labels_in(records: Sequence[Any]) -> LabelKinds:
    """The labels that these records have, with what each holds; none where they have no such field."""
    told = [getattr(one, LABELS, {}) for one in records]
    return {name: type(value) for labels in told for name, value in labels.items()}


def schema(record: type, name: str, run_id: str, labels: LabelKinds) -> "pa.Schema":
    """The schema of a type's records that have these labels at most."""
    import pyarrow as pa  # noqa: PLC0415

    types = arrow_types()
    columns = [
        pa.field(one.name, types[one.kind], nullable=one.optional)
        for one in kinds_of(record)
        if one.kind is not dict
    ]
    columns += [pa.field(f"{LABELS}.{label}", types[labels[label]]) for label in sorted(labels)]
    return pa.schema(columns, metadata=_metadata(name, run_id))


def batch(records: Sequence[Any], layout: "pa.Schema") -> "pa.RecordBatch":
    """Records, in their order, as one record batch."""
    import pyarrow as pa  # noqa: PLC0415

    def value(record: Any, name: str) -> Any:
        field, _, label = name.partition(".")
        return getattr(record, LABELS).get(label) if label else getattr(record, field)

    arrays = [pa.array([value(one, field.name) for one in records], field.type) for field in layout]
    return pa.RecordBatch.from_arrays(arrays, schema=layout)


def batches(rows: Rows[Any], name: str, run_id: str, most: int) -> "Iterator[pa.RecordBatch]":
    """A table of records in the order in which they came, at most so many in a batch; one batch at least."""
    import pyarrow as pa  # noqa: PLC0415

    columns, order = rows.as_they_came()
    if rows.record is None:
        types = arrow_types()
        layout = pa.schema(
            [pa.field(one, types[kind]) for one, kind in rows.kinds.items()], metadata=_metadata(name, run_id)
        )
    else:
        labels = columns.get(LABELS)
        words = labels.words if isinstance(labels, Words) else []
        told = {label: type(value) for word in words for label, value in word.items()}
        layout = schema(rows.record, name, run_id, told)
        if isinstance(labels, Words):
            columns = {**columns, **{f"{LABELS}.{label}": _one_label(labels, label) for label in told}}
    for start in range(0, max(1, len(order)), most):
        part = order[start : start + most]
        arrays = [arrow_from(columns[field.name], part, field.type) for field in layout]
        yield pa.RecordBatch.from_arrays(arrays, schema=layout)


def _one_label(labels: Words, label: str) -> Words:
    return Words(labels.array, [word.get(label) for word in labels.words])


def problems(found: "pa.Schema", name: str) -> list[str]:
    """What keeps a file's schema from being a table of ours: another name or version, a strange column."""
    metadata = {key.decode("utf-8", "replace"): value for key, value in (found.metadata or {}).items()}
    version = metadata.get("schema_version", b"").decode("utf-8", "replace")
    if version != str(TABLE_SCHEMA_VERSION):
        return [f"schema_version = {version or 'absent'}: this rigproof reads {TABLE_SCHEMA_VERSION}"]
    if metadata.get("table") != name.encode():
        return [f"table = {metadata.get('table', b'')!a:.40} is not what its file is called"]
    if len(found.names) > COLUMNS_MAX or len(set(found.names)) < len(found.names):
        return [f"{len(found.names)} columns are too many, or two have one name"]
    known = arrow_types()
    said = [f"column {one.name!a:.80} is no field's name" for one in found if not _is_name(one.name)]
    said += [
        f"column {one.name} holds {one.type}, which no field does"
        for one in found
        if _is_name(one.name) and one.type not in known.values()
    ]
    for needed, kind in (("t_s", float), ("subject", str)):
        place = found.get_field_index(needed)
        if place < 0 or found.field(place).type != known[kind]:
            said.append(f"column {needed} is missing, or does not hold {known[kind]}")
    return said


def rows_of(source: "Callable[[str], pa.ChunkedArray]", layout: "pa.Schema") -> Rows[Any]:
    """The table whose schema has no `problems`; its type is not known yet. TableError where a row is none."""
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
