"""All of the sharing stage."""

from rigproof.profiles.planning.stages import StageKind
from rigproof.stages.sharing.criteria import CRITERIA
from rigproof.stages.sharing.faults import FAULTS, NOTICED
from rigproof.stages.sharing.simulated import SIMULATED
from rigproof.stages.sharing.specs import specs
from rigproof.stages.sharing.table import sharing_tables
from rigproof.stages.slice import StageSlice

KIND = StageKind("sharing", "arms", "sharing_s", optional=True, spawns=True, arms="processes")
SHARING = StageSlice(KIND, specs, SIMULATED, CRITERIA, FAULTS, NOTICED, tables=sharing_tables)
