"""All of the feeding stage."""

from rigproof.profiles.kinds.stages import ANY_LOAD, STEADY, StageKind
from rigproof.stages.feeding.criteria import CRITERIA
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
    lint=problems,
    faults=(
        *ANY_LOAD,
        *STEADY,
        "temperature-out-of-range",
        "power-out-of-range",
        "clock-drops-idle",
        "rewards-slow",
        "rewards-differ",
        "rewards-crash",
        "gpu-starved",
        "gpu-half-used",
    ),
)
FEEDING = StageSlice(KIND, specs, SIMULATED, CRITERIA, tables=feeding_tables)
