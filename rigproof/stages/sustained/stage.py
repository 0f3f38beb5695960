"""All of the sustained stage."""

from rigproof.profiles.planning.stages import ANY_LOAD, BESIDE_CPU_LOAD, MULTIPLIED, STEADY, Label, StageKind
from rigproof.stages.slice import StageSlice
from rigproof.stages.sustained.criteria import CRITERIA
from rigproof.stages.sustained.plan import plan
from rigproof.stages.sustained.simulated import SIMULATED
from rigproof.stages.sustained.specs import specs

KIND = StageKind(
    "sustained",
    "continuous",
    "sustained_s",
    plan=plan,
    all_workers=True,
    host_load=True,
    faults=(*ANY_LOAD, *MULTIPLIED, *STEADY, *BESIDE_CPU_LOAD, "straggler", "oom-retry"),
    labels=(
        Label("precision", str, work=True),
        Label("size", int),
        Label("part", str, work=True),  # where memory did not suffice: "emergency" or "cpu" (docs/memory.md)
    ),
)
SUSTAINED = StageSlice(KIND, specs, SIMULATED, CRITERIA)
