"""All of the sustained stage."""

from rigproof.profiles.planning.stages import StageKind
from rigproof.stages.slice import StageSlice
from rigproof.stages.sustained.criteria import CRITERIA
from rigproof.stages.sustained.faults import FAULTS
from rigproof.stages.sustained.plan import plan
from rigproof.stages.sustained.simulated import SIMULATED
from rigproof.stages.sustained.specs import specs

KIND = StageKind("sustained", "continuous", "sustained_s", plan=plan, crew="workers", host_load=True)
SUSTAINED = StageSlice(KIND, specs, SIMULATED, CRITERIA, FAULTS)
