"""JSON Schemas of rig and SKU files and of the Xid catalogue, for editors that read `#:schema`.

`hwprofiles/schema/` holds the output of these functions; a test keeps both the same.
"""

from typing import Any

from pydantic import BaseModel

from rigproof.profiles.kinds.models import models_of
from rigproof.profiles.kinds.stages import StageKinds
from rigproof.profiles.loading.xids import XidCatalogue

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def rig_schema(kinds: StageKinds) -> dict[str, Any]:
    """The schema of `hwprofiles/rigs/*.toml`."""
    return _schema(models_of(kinds).rig_file, "rigproof rig profile")


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
