"""Pages and schemas of every key of a profile, written from the models.

`docs/profile-keys.md` and `hwprofiles/schema/` hold the output; tests keep them the same.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from rigproof.profiles.kinds.models import models_of
from rigproof.profiles.kinds.stages import StageKinds
from rigproof.profiles.loading.xids import XidCatalogue
from rigproof.profiles.tables.base import LimitKey
from rigproof.profiles.tables.limits import LIMITS, Limits
from rigproof.profiles.tables.node import CPU, RESPONSIVENESS
from rigproof.profiles.tables.rig import Rig
from rigproof.profiles.tables.sku import Sku

Schema = dict[str, Any]
JudgedBy = Mapping[LimitKey[Any], Sequence[str]]  # criteria by limit

INTRODUCTION = """\
# Every key of a profile

Written by `PYTHONPATH=.:tests python -m support.generated`; a test keeps it current. Do not edit it by
hand.

This page lists every key of a rig profile and of a SKU profile, for whoever writes one;
[profiles.md](profiles.md) shows how. `rigproof lint FILE` checks a file against it.

Units are in the names: `_gib` 2^30 bytes, `_mib` 2^20 bytes, `_gbps` 10^9 bytes/s, `_tflops` 10^12 FLOP/s
(dense), `_c` °C, `_w` W, `_s` seconds, `_ms` milliseconds, `_percent` 0 to 100, `_share` 0 to 1. "Left out"
says what applies if no file states the key. Every other setting and limit has a value in
[hwprofiles/defaults.toml](../hwprofiles/defaults.toml).
"""

# Where each table of the models stands in a file, by the name of its class.
_RIG_PLACES = {
    "Rig": "top of the file",
    "Node": "[[nodes]]",
    "Gpu": "[[nodes.gpus]]",
    "Floors": "[nodes.gpus.floors]",
    "Limits": "[limits], [nodes.gpus.limits]",
    "Architecture": "[[architectures]]",
    "FmaRates": "highest and lowest of an architecture",
    "GpuDefaults": "[gpu_defaults]",
    "CpuLoad": "[cpu], [nodes.cpu]",
    "Responsiveness": "[responsiveness]",
    "Sampling": "[sampling]",
    "Timeouts": "[timeouts]",
    "MemoryPolicy": "[memory], [nodes.gpus.memory]",
    "Levels": "[levels]",
    "EveryLevel": "lengths that every level has",
    "SomeLevels": "lengths that a level may leave out",
    "Calibration": "[calibration]",
}
_SKU_PLACES = {
    "Sku": "top of the file",
    "Rates": "[peak_tflops]",
    "SteadyFigures": "[steady]",
    "Figure": "a figure of [steady]",
    "TemperatureLimits": "[temperature]",
    "PowerPoint": "an element of power_curve",
}


def keys_page(kinds: StageKinds, judged_by: JudgedBy) -> str:
    """The page: one table for each table of a rig and of a SKU file; see `rig_schema`."""
    places, notes = {}, {"Limits": f"A GPU's own table cannot have {_listed(Limits.of_rig)}."}
    for kind in kinds:
        own, of_rig = f"[nodes{'' if kind.by_node else '.gpus'}.stages.{kind.name}]", kind.settings.of_rig
        has_own = bool(set(kind.settings.model_fields) - of_rig)
        places[kind.settings.__name__] = f"[stages.{kind.name}]" + (f", {own}" if has_own else "")
        about = [f"`{own}` cannot have {_listed(of_rig)}."] if has_own and of_rig else []
        if kind.shortest_s:
            about.append(f"On a rig with a GPU the stage is at least {kind.shortest_s:g} s long.")
        notes[kind.settings.__name__] = " ".join(about)
    rig = _tables("Rig profiles", rig_schema(kinds, judged_by), Rig.__name__, _RIG_PLACES | places, notes)
    sku = _tables("SKU profiles", sku_schema(kinds), Sku.__name__, _SKU_PLACES, {})
    return f"{INTRODUCTION}\n{rig}\n{sku}"


def _listed(names: frozenset[str]) -> str:
    *others, last = (f"`{name}`" for name in sorted(names))
    return f"{', '.join(others)} or {last}" if others else last


def _tables(title: str, schema: Schema, top: str, places: dict[str, str], notes: dict[str, str]) -> str:
    """`places` and `notes` by class: where a table stands, and what its class does not say of it."""
    tables = {top: schema, **schema["$defs"]}
    lines = [f"## {title}", ""]
    for name, place in places.items():
        table = tables[name]
        about = f"{_summary(table)} {notes.get(name, '')}".rstrip()
        lines += [f"**{place}**: {about}", "", "| Key | Value | Meaning |", "|---|---|---|"]
        for key, part in table["properties"].items():
            required = ", required" if key in table.get("required", ()) else ""
            lines.append(f"| `{key}` | {_value(part)}{required} | {part.get('description', '')} |")
        lines.append("")
    return "\n".join(lines)


def _summary(table: Schema) -> str:
    return " ".join(str(table.get("description", "")).split("\n\n")[0].split())


def _value(part: Schema) -> str:
    """The values of a key, in words."""
    if "$ref" in part:
        return "table"
    if "enum" in part:
        return " or ".join(f'`"{value}"`' for value in part["enum"])
    if part.get("type") == "array":
        if "prefixItems" in part:
            return "[" + ", ".join(_value(item) for item in part["prefixItems"]) + "]"
        return "tables" if "$ref" in part.get("items", {}) else f"list of {_value(part['items'])}"
    words = {"number": "number", "integer": "whole number", "boolean": "true or false", "string": "text"}
    return words.get(str(part.get("type")), "value") + _bounds(part)


def _bounds(part: Schema) -> str:
    signs = {"exclusiveMinimum": ">", "minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤"}
    bounds = [f"{sign} {part[key]:g}" for key, sign in signs.items() if key in part]
    if "multipleOf" in part:
        bounds.append(f"a multiple of {part['multipleOf']:g}")
    return " " + ", ".join(bounds) if bounds else ""


_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def rig_schema(kinds: StageKinds, judged_by: JudgedBy) -> dict[str, Any]:
    """The schema of `hwprofiles/rigs/*.toml`; each limit names the criteria that are `judged_by` it."""
    schema = _schema(models_of(kinds).rig_file, "rigproof rig profile")
    models = {keys.table: keys.model.__name__ for keys in (LIMITS, CPU, RESPONSIVENESS)}
    models |= {f"stages.{kind.name}": kind.settings.__name__ for kind in kinds}
    for key, criteria in judged_by.items():
        for own in ("", "OfGpu", "OfNode"):
            table = schema["$defs"].get(f"{models[key.table]}{own}", {"properties": {}})
            if key.name in table["properties"]:
                table["properties"][key.name]["description"] += f" See {_some(criteria)}."
    return schema


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more"


def sku_schema(kinds: StageKinds) -> dict[str, Any]:
    """The schema of `hwprofiles/gpus/*.toml`."""
    return _schema(models_of(kinds).sku, "rigproof SKU profile")


def xids_schema() -> dict[str, Any]:
    """The schema of `hwprofiles/xids.toml`."""
    return _schema(XidCatalogue, "rigproof Xid catalogue")


def _schema(model: type[BaseModel], title: str) -> dict[str, Any]:
    schema = _without_null(model.model_json_schema())
    return {"$schema": _DIALECT, **schema, "title": title}


def _without_null(part: Any) -> Any:
    """The schema for TOML, which has no null: `X | null` becomes `X`, and a default of null goes."""
    if isinstance(part, list):
        return [_without_null(element) for element in part]
    if not isinstance(part, dict):
        return part
    kept = {
        key: _without_null(value) for key, value in part.items() if not (key == "default" and value is None)
    }
    choices = kept.get("anyOf")
    if isinstance(choices, list):
        real = [choice for choice in choices if choice != {"type": "null"}]
        if len(real) == 1:
            del kept["anyOf"]
            kept = {**real[0], **kept}
    return kept
