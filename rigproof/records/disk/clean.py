"""Makes records storable: finite numbers, valid text, plain values.

JSON has no NaN and no infinity, and comparing a limit with NaN decides nothing. So a number that is not
finite becomes None if the field may be None ("no reading"); otherwise the record is refused, since it would
be a measurement without its value.
"""

import math
import types
from collections.abc import Set
from dataclasses import fields, replace
from numbers import Integral, Real
from typing import Any, TypeVar, get_args, get_type_hints

RecordType = TypeVar("RecordType")
INT64 = range(-(2**63), 2**63)
NUMBERS: tuple[Any, ...] = (Integral, Real)
WHOLE: tuple[Any, ...] = (Integral,)
_FIELDS: dict[type, tuple[tuple[str, bool], ...]] = {}


class NotStorableError(ValueError):
    """A required number of a record is not finite; the message names the field and its value."""


def clean(record: RecordType) -> RecordType:
    """The record itself if all its values can be stored, else a storable copy.

    Raises NotStorableError if a field that cannot be None is not a finite number.
    """
    changed = {}
    for name, optional in _fields(type(record)):
        value = getattr(record, name)
        if value is None or (type(value) is float and math.isfinite(value)):  # most of a sample's fields
            continue
        stored = plain(value)
        if stored is None and value is not None and not optional:
            raise NotStorableError(f"{type(record).__name__}.{name} = {value!r} is not a finite number")
        if stored is not value:
            changed[name] = stored
    return replace(record, **changed) if changed else record  # type: ignore[type-var]


def plain(value: Any) -> Any:
    """The value as JSON's types (tuples stay tuples); what JSON cannot represent becomes its text."""
    if type(value) is float:
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if value is None or isinstance(value, bool):
        return value
    if type(value) is int or isinstance(value, NUMBERS):  # to ask for an abstract class takes long
        return _number(value)
    if isinstance(value, (tuple, dict, list, set, frozenset)):
        return _container(value)
    scalar = getattr(value, "shape", None) == ()  # of numpy or torch
    return plain(value.item() if scalar else str(value))


def _container(value: tuple[Any, ...] | dict[Any, Any] | list[Any] | Set[Any]) -> Any:
    if isinstance(value, tuple):
        return _sequence(value)
    if isinstance(value, dict):
        return {plain(str(key)): _json(item) for key, item in value.items()}
    return [_json(item) for item in value]


def _sequence(values: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """A tuple of readings; None if one of them is not a number, since their positions have a meaning."""
    items = tuple(plain(item) for item in values)
    if any(item is None for item in items):
        return None
    return values if all(item is value for item, value in zip(items, values, strict=True)) else items


def _json(value: Any) -> Any:
    """Inside a dict or list a sequence is a list, as JSON reads it back."""
    return [_json(item) for item in value] if isinstance(value, tuple) else plain(value)


def _number(value: Any) -> int | float | None:
    if type(value) is int or isinstance(value, WHOLE):
        whole = int(value)
        return whole if whole in INT64 else None
    number = float(value)
    return number if math.isfinite(number) else None


def _fields(record: type) -> tuple[tuple[str, bool], ...]:
    """Field names of a record type, each with whether it may be None."""
    if record not in _FIELDS:
        hints = get_type_hints(record)
        _FIELDS[record] = tuple(
            (field.name, hints[field.name] is Any or types.NoneType in get_args(hints[field.name]))
            for field in fields(record)
        )
    return _FIELDS[record]
