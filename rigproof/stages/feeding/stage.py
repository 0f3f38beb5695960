"""All of the feeding stage."""

from rigproof.profiles.planning.stages import ANY_LOAD, STEADY, Label, StageKind
from rigproof.stages.feeding.criteria import CRITERIA
from rigproof.stages.feeding.simulated import SIMULATED
from rigproof.stages.feeding.specs import specs
from rigproof.stages.feeding.table import feeding_tables
from rigproof.stages.slice import StageSlice

KIND = StageKind(
    "feeding",
    "fed",
    "feeding_s",
    optional=True,
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
    labels=(Label("precision", str, work=True), Label("size", int)),
    events={
        "generation": "how long a step's generation is; data.tokens, aimed_s, pass_s, completions, overlap"
    },
)
FEEDING = StageSlice(KIND, specs, SIMULATED, CRITERIA, tables=feeding_tables)
