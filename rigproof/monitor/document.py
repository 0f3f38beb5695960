"""A snapshot as one JSON document, for scripts. Units are in the names; null means "not known"."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from rigproof.monitor.cells import reason_names
from rigproof.monitor.signs import WarningSign
from rigproof.monitor.snapshot import Snapshot

SCHEMA_VERSION = 1


def document(snapshot: Snapshot, signs: Sequence[WarningSign], *, indent: int | None = None) -> str:
    """`schema_version`, the snapshot's own fields, and `warnings`; on one line if `indent` is None."""
    content: dict[str, Any] = {"schema_version": SCHEMA_VERSION, **dataclasses.asdict(snapshot)}
    for node in content["nodes"]:
        for gpu in node["gpus"]:
            mask = gpu["clock_event_reasons"]
            gpu["clock_event_reasons_mask"] = mask
            gpu["clock_event_reasons"] = None if mask is None else reason_names(mask)
    content["warnings"] = [dataclasses.asdict(sign) for sign in signs]
    return json.dumps(content, indent=indent, allow_nan=False)
