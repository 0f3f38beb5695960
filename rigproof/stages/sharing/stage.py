"""All of the sharing stage."""

from rigproof.stages.sharing.criteria import CRITERIA
from rigproof.stages.sharing.simulated import SIMULATED
from rigproof.stages.sharing.specs import specs
from rigproof.stages.sharing.table import sharing_tables
from rigproof.stages.slice import StageSlice

SHARING = StageSlice("sharing", specs, SIMULATED, CRITERIA, tables=sharing_tables)
