"""The schemas of every key of a profile, written from the models; `hwprofiles/schema/` holds them."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from rigproof.profiles.kinds.models import models_of
from rigproof.profiles.kinds.stages import StageKinds
from rigproof.profiles.loading.xids import XidCatalogue
from rigproof.profiles.tables.base import LimitKey
from rigproof.profiles.tables.limits import LIMITS
from rigproof.profiles.tables.node import CPU, RESPONSIVENESS

Schema = dict[str, Any]
JudgedBy = Mapping[LimitKey[Any], Sequence[str]]  # criteria by limit

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
