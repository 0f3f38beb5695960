"""All stages, in the order in which they run. A new stage is registered here, by the name of its folder."""

from importlib import import_module
from typing import Any

from rigproof.profiles.kinds.stages import Kinds
from rigproof.stages.kind import StageKind

NAMES = (
    "route",
    "lan",
    "gemm",
    "sustained",
    "pattern",
    "training",
    "feeding",
    "sharing",
    "bandwidth",
    "transfer",
    "peer",
    "collective",
    "replay",
    "shapes",
    "ddp",
    "ram",
    "disk",
    "transient",
)
KINDS: Kinds[StageKind[Any]] = Kinds(
    tuple(import_module(f"rigproof.stages.{name}.stage").KIND for name in NAMES)
)
FORMS = {kind.name: kind.simulated for kind in KINDS}
