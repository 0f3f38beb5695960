"""All of the sustained stage."""

from rigproof.stages.slice import StageSlice
from rigproof.stages.sustained.criteria import CRITERIA
from rigproof.stages.sustained.simulated import SIMULATED
from rigproof.stages.sustained.specs import specs

SUSTAINED = StageSlice("sustained", specs, SIMULATED, CRITERIA, host_load=True)
