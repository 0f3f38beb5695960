"""Whether a file, and the rig that files make together, has the shape of a profile: every mistake at once."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from rigproof.profiles.errors import ProfileError, nearest, problem, shown
from rigproof.profiles.loading.files import stems
from rigproof.profiles.loading.merge import Merged

PROBLEMS_SHOWN = 100
Checked = TypeVar("Checked", bound=BaseModel)
_NUMBER = re.compile(r"\d+(\.\d+)?")
Location = tuple[int | str, ...]

# By the check's error type: (problem, remedy).
_WRONG_TYPES = {
    "float_type": ("not a number", "write a number such as 0.75"),
    "int_type": ("not a whole number", "write a whole number such as 10"),
    "int_from_float": ("not a whole number", "write a whole number such as 10"),
    "string_type": ("not text", 'write it in quotes, such as "text"'),
    "bool_type": ("neither true nor false", "write true or false, without quotes"),
    "tuple_type": ("not a list", "write it in brackets, such as [1, 2]"),
    "model_type": ("not a table", "write it as a table of keys and values"),
    "model_attributes_type": ("not a table", "write it as a table of keys and values"),
    "dict_type": ("not a table", "write it as a table of keys and values"),
    "finite_number": ("not a finite number", "write a number; leave the key out where there is no limit"),
}
_NOT_A_NAME = ("not a name", "write 1 to 64 letters, digits, dots, dashes or underscores")
# Bounds, filled in from the check's error.
_BOUNDS = {
    "greater_than": ("too small, it has to be over {gt:g}", "write a number over {gt:g}"),
    "greater_than_equal": ("too small, it has to be at least {ge:g}", "write {ge:g} or more"),
    "less_than": ("too large, it has to be under {lt:g}", "write a number under {lt:g}"),
    "less_than_equal": ("too large, it can be {le:g} at most", "write {le:g} or less"),
    "multiple_of": (
        "not a multiple of {multiple_of:g}",
        "write a multiple of {multiple_of:g}, as tensor cores require it",
    ),
    "literal_error": ("not one of the known values", "write one of {expected}"),
    "not_a_host": ("not a host", "write it alone, without a port or mask: 192.168.1.10, fd00::1 or pc1.lan"),
    "not_an_address": (
        "not an IP address, which is four numbers of 0 to 255, and no host has a name that ends in a number",
        "write the address as `ip address` shows it on that machine, such as 192.168.1.10",
    ),
    "of_no_machine": (
        "not the address of one machine",
        "write the address as `ip address` shows it on that machine, such as 192.168.1.10",
    ),
    "string_pattern_mismatch": _NOT_A_NAME,
    "string_too_long": _NOT_A_NAME,
    "too_long": ("too many values", "write {max_length}, such as [70, 85]"),
    "too_short": ("too few values", "write at least {min_length}"),
}


def structural_problems(model: type[BaseModel], tables: Mapping[str, Any], file: str) -> list[str]:
    """The problems of the shape of `tables`, the content of `file`."""
    try:
        checked(model, tables, file)
    except ProfileError as error:
        return list(error.problems)
    return []


def checked(model: type[Checked], tables: Mapping[str, Any], file: str) -> Checked:
    """The `tables`, the content of `file`, as that model. Raises ProfileError with all that is wrong."""
    try:
        return model.model_validate(tables)
    except ValidationError as error:
        found = error.errors(include_url=False)
        problems = [_sentence(model, details, file) for details in found[:PROBLEMS_SHOWN]]
        if len(found) > PROBLEMS_SHOWN:
            problems.append(f"{file}: {len(found) - PROBLEMS_SHOWN} more problems; correct those above first")
        raise ProfileError(problems) from None
    except (RecursionError, OverflowError):
        raise ProfileError(
            [f"{file}: a value is nested too deep or out of range; write it plainly"]
        ) from None


def written_key(location: Location) -> str:
    """A place in a file as people write it: `nodes[1].cpu.band_percent`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
    return text if len(text) <= 120 else text[:119] + "…"


def _sentence(model: type[BaseModel], details: ErrorDetails, file: str) -> str:
    location, kind, value = details["loc"], details["type"], details["input"]
    key = written_key(location)
    if kind == "missing":
        return _missing(file, location, value)
    if kind == "extra_forbidden":
        table = _table_of_rig(model, location)
        if table is not None:
            return problem(file, key, value, "no single GPU can have its own", f"write it in [{table}]")
        known = _keys_at(model, location[:-1])
        return problem(file, key, value, "unknown key", f"{nearest(str(location[-1]), known)}")
    if kind in _WRONG_TYPES:
        wrong, way_out = _WRONG_TYPES[kind]
        return problem(file, key, value, wrong, _instead(model, details) or way_out)
    return problem(file, key, value, *_out_of_bounds(kind, details.get("ctx", {})))


def _instead(model: type[BaseModel], details: ErrorDetails) -> str:
    """The value that was probably meant by one of the wrong type; empty if that is not known."""
    location, kind, value = details["loc"], details["type"], details["input"]
    if kind in ("float_type", "int_type"):
        if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
            return f"write it without quotes: {value.strip()}"
        other = kind == "int_type" or str(location[-1]).endswith("_share")
        return "" if other else "write a number such as 10"
    if kind == "model_type" and not isinstance(value, dict):
        hint = nearest(str(location[-1]), _keys_at(model, location[:-1], tables=False))
        return f"{_WRONG_TYPES[kind][1]}, or {hint}" if hint.startswith("did you mean") else ""
    return ""


def _missing(file: str, location: Location, value: object) -> str:
    *table, last = location
    if isinstance(last, int):  # a pair with only one element
        return problem(
            file, written_key(tuple(table)), value, "too few values", "write two, such as [70, 85]"
        )
    return f"{file}: {written_key(location)}: missing; write {last} = … in " + (
        f"the table {written_key(tuple(table))}" if table else "the first lines, before any table"
    )


def _out_of_bounds(kind: str, ctx: Mapping[str, Any]) -> tuple[str, str]:
    """The problem and the remedy, by the kind of bound that was violated."""
    wrong, way_out = _BOUNDS.get(
        kind, ("not accepted here", "see docs/profile-keys.md for the values of this key")
    )
    return wrong.format(**ctx), way_out.format(**ctx)


def _table_of_rig(model: type[BaseModel], location: Location) -> str | None:
    """The table of the rig that has this key, if it is one of a GPU's tables; None if none has it."""
    match location:
        case ("nodes", int(), "gpus", int(), *table, last) if table:
            return written_key(tuple(table)) if last in _keys_at(model, tuple(table)) else None
    return None


def _keys_at(model: type[BaseModel], location: Location, *, tables: bool = True) -> set[str]:
    """The keys that the table at `location` can have; with `tables` those of further tables too."""
    current: type[BaseModel] | None = model
    for part in location:
        if isinstance(part, str) and current is not None:
            known = current.model_fields.get(part)
            current = _table_in(known.annotation) if known else None
    fields = current.model_fields if current else {}
    return {name for name, field in fields.items() if tables or _table_in(field.annotation) is None}


def _table_in(annotation: Any) -> type[BaseModel] | None:
    """The table inside `Table`, `Table | None`, `tuple[Table, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in get_args(annotation) if (found := _table_in(inner))), None)


UNKNOWN_SKU = "unknown"


def merged_problems(merged: Merged, file: str) -> list[str]:
    """Problems of the whole rig, each naming the file that its value came from."""
    tree = merged.tree
    found = list(_band_problems(merged, "cpu", _table(tree, "cpu"), {}))
    if not _nodes(tree):
        found.append(
            problem(
                file,
                "nodes",
                [],
                "no node is promised",
                "write a [[nodes]] table with its name and [[nodes.gpus]]",
            )
        )
    skus = stems("gpus")
    for node in _nodes(tree):
        dotted = f"nodes.{node['name']}"
        found += _band_problems(merged, f"{dotted}.cpu", _table(node, "cpu"), _table(tree, "cpu"))
        gpus = node.get("gpus")
        for index, gpu in enumerate(gpus if isinstance(gpus, list) else ()):
            sku = gpu.get("sku") if isinstance(gpu, dict) else None
            if isinstance(sku, str) and sku != UNKNOWN_SKU and sku not in skus:
                found.append(_unknown_sku(merged, f"{dotted}.gpus.{index}.sku", sku, skus))
    return found[:PROBLEMS_SHOWN]


def repeated_nodes(table: Mapping[str, Any], file: str) -> list[str]:
    """Node names that one file uses twice."""
    names = [node["name"] for node in _nodes(table)]
    return [
        problem(file, "nodes[].name", name, f"{times} nodes have this name", "give each node its own")
        for name, times in list(Counter(names).items())[:PROBLEMS_SHOWN]
        if times > 1
    ]


def _unknown_sku(merged: Merged, dotted: str, sku: str, skus: tuple[str, ...]) -> str:
    origin = merged.origins[dotted]
    hint = nearest(sku, skus)
    return problem(
        origin.file,
        origin.key,
        sku,
        "no such file in hwprofiles/gpus",
        f'{hint} A card without a file is "{UNKNOWN_SKU}"'
        if hint.endswith("?")
        else f'{hint}, or "{UNKNOWN_SKU}"',
    )


def _band_problems(
    merged: Merged, dotted: str, own: Mapping[str, Any], below: Mapping[str, Any]
) -> Iterator[str]:
    """Problems of the CPU band of the table at `dotted`: its `own` values over those of the rig, `below`.

    There are none if `own` states neither of the two values.
    """
    band = own.get("band_percent", below.get("band_percent"))
    if not (isinstance(band, list) and len(band) == 2 and all(_is_number(end) for end in band)):
        return
    low, high = band
    if low >= high and "band_percent" in own:
        origin = merged.origins[f"{dotted}.band_percent"]
        wrong = "low end above high end" if low > high else "low end equals high end"
        turned = [high, low] if low > high else [70, 85]
        yield problem(origin.file, origin.key, band, wrong, f"write e.g. {shown(turned)}")
    warn = own.get("warn_percent", below.get("warn_percent"))
    stated = "band_percent" in own or "warn_percent" in own
    if stated and _is_number(warn) and warn < max(band):
        # The file that was merged last made the two disagree.
        stated_keys = [key for key in ("warn_percent", "band_percent") if key in own]
        key = max(stated_keys, key=lambda key: merged.files.index(merged.origins[f"{dotted}.{key}"].file))
        origin = merged.origins[f"{dotted}.{key}"]
        yield problem(
            origin.file,
            origin.key,
            own[key],
            f"warn_percent {shown(warn)} is below the band's high end {shown(max(band))}",
            f"write warn_percent = {shown(max(band))} or more",
        )


def _nodes(tree: Mapping[str, Any]) -> list[dict[str, Any]]:
    nodes = tree.get("nodes")
    if not isinstance(nodes, list):
        return []
    return [node for node in nodes if isinstance(node, dict) and isinstance(node.get("name"), str)]


def _table(tree: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    table = tree.get(key)
    return table if isinstance(table, dict) else {}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
