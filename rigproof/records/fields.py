"""The types that a record's fields may have, so that many records fit into columns, in memory and on disk."""

import re
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

LABELS = "labels"  # the field with one column per label on disk: `labels.precision`
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")  # of tables, columns and labels
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class FieldKind:
    """The type of one field of a record."""

    name: str
    kind: type  # float, int, str or bool; tuple: of floats; dict: labels
    choices: tuple[Any, ...]  # of a Literal; empty: any value
    optional: bool  # may be None
    default: Any  # None if it has none


@cache
def table_name(record: type) -> str:
    """The name of a record type's table: `reward_batch`."""
    return _CAPITAL.sub("_", record.__name__).lower()


@cache
def kinds_of(record: type) -> tuple[FieldKind, ...]:
    """The fields of a record type. Raises TypeError if one of them cannot be a column."""
    hints = get_type_hints(record)
    return tuple(_kind(field.name, hints[field.name], field.default) for field in fields(record))


def _kind(name: str, hint: Any, default: Any) -> FieldKind:
    union = get_origin(hint) in (types.UnionType, Union)  # Literal | None is the second
    parts = [part for part in get_args(hint) if part is not types.NoneType] if union else [hint]
    choices = get_args(parts[0]) if get_origin(parts[0]) is Literal else ()
    kind = str if choices else parts[0]
    if get_origin(kind) is tuple and get_args(kind) == (float, ...):
        kind = tuple
    elif name == LABELS and get_origin(kind) is Mapping:
        kind = dict
    if len(parts) != 1 or kind not in (float, int, str, bool, tuple, dict):
        raise TypeError(f"{name}: {hint} cannot be a column")
    return FieldKind(name, kind, choices, union, None if default is MISSING else default)
