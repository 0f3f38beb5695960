"""The sustained stage, put together."""

from rigproof.profiles.kinds.stages import Label, StageKind
from rigproof.profiles.tables.sku import PRECISIONS
from rigproof.stages.slice import StageSlice
from rigproof.stages.sustained.criteria import CRITERIA
from rigproof.stages.sustained.faults import FAULTS
from rigproof.stages.sustained.lint import doubts, problems
from rigproof.stages.sustained.plan import plan
from rigproof.stages.sustained.settings import FIGURE, SustainedSettings
from rigproof.stages.sustained.simulated import SIMULATED
from rigproof.stages.sustained.specs import specs

KIND = StageKind(
    "sustained",
    "continuous",
    SustainedSettings,
    (FIGURE,),
    plan=plan,
    shortest_s=7.0,  # four windows of settled load, for the stability of its rate
    lint=problems,
    doubts=doubts,
    crew="workers",
    host_load=True,
    labels=(
        Label("precision", str, PRECISIONS, work=True),
        Label("size", int, told=True),
        # If memory did not suffice: "emergency" or "cpu" (docs/memory.md).
        Label("part", str, optional=True, work=True),
    ),
)
SUSTAINED = StageSlice(KIND, specs, SIMULATED, CRITERIA, FAULTS)
