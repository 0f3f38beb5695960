"""The feeding stage, put together."""

from collections.abc import Mapping
from typing import Any

from rigproof.profiles.kinds.stages import HeldAgainst, Label, Need, StageKind
from rigproof.profiles.tables.sku import PRECISIONS
from rigproof.records.measurements import TFLOP
from rigproof.stages.feeding.criteria import CRITERIA
from rigproof.stages.feeding.faults import FAULTS
from rigproof.stages.feeding.lint import problems
from rigproof.stages.feeding.settings import FeedingSettings
from rigproof.stages.feeding.simulated import SIMULATED
from rigproof.stages.feeding.specs import specs
from rigproof.stages.feeding.table import feeding_tables
from rigproof.stages.slice import StageSlice

GB = "GB"


def _read_gb(spec: Mapping[str, Any]) -> float:
    """Of 16-bit weights, for each TFLOP: a pass reads each for two operations in every completion."""
    completions = spec.get("completions")
    return 1000 / completions if completions else 0.0


KIND = StageKind(
    "feeding",
    "fed",
    FeedingSettings,
    shortest_s=5.0,
    lint=problems,
    labels=(Label("precision", str, PRECISIONS, work=True), Label("size", int)),
    held_against=HeldAgainst(
        "memory bandwidth and products", (Need(GB, amount=_read_gb), Need(TFLOP, ("precision",)))
    ),
    events={
        "generation": "the length of a step's generation; data.tokens, aimed_s, pass_s, completions, overlap"
    },
)
QUIET = ("generation",)
FEEDING = StageSlice(KIND, specs, SIMULATED, CRITERIA, FAULTS, tables=feeding_tables, quiet_events=QUIET)
