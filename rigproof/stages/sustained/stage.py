"""All of the sustained stage."""

from rigproof.profiles.kinds.stages import ANY_LOAD, BESIDE_CPU_LOAD, MULTIPLIED, STEADY, StageKind
from rigproof.stages.slice import StageSlice
from rigproof.stages.sustained.criteria import CRITERIA
from rigproof.stages.sustained.lint import problems
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
    lint=problems,
    all_workers=True,
    host_load=True,
    faults=(*ANY_LOAD, *MULTIPLIED, *STEADY, *BESIDE_CPU_LOAD, "straggler", "oom-retry"),
)
SUSTAINED = StageSlice(KIND, specs, SIMULATED, CRITERIA)
