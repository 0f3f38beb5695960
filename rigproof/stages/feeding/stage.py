"""The feeding stage, put together."""

from rigproof.profiles.kinds.stages import Label, StageKind
from rigproof.profiles.tables.sku import PRECISIONS
from rigproof.stages.feeding.criteria import CRITERIA
from rigproof.stages.feeding.faults import FAULTS, NOTICED
from rigproof.stages.feeding.lint import problems
from rigproof.stages.feeding.settings import FeedingSettings
from rigproof.stages.feeding.simulated import SIMULATED
from rigproof.stages.feeding.specs import specs
from rigproof.stages.feeding.table import feeding_tables
from rigproof.stages.slice import StageSlice

KIND = StageKind(
    "feeding",
    "fed",
    FeedingSettings,
    shortest_s=5.0,
    lint=problems,
    labels=(Label("precision", str, PRECISIONS, work=True), Label("size", int)),
    events={
        "generation": "the length of a step's generation; data.tokens, aimed_s, pass_s, completions, overlap"
    },
)
QUIET = ("generation",)
FEEDING = StageSlice(
    KIND, specs, SIMULATED, CRITERIA, FAULTS, NOTICED, tables=feeding_tables, quiet_events=QUIET
)
