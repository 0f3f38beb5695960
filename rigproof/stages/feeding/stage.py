"""All of the feeding stage."""

from rigproof.stages.feeding.criteria import CRITERIA
from rigproof.stages.feeding.simulated import SIMULATED
from rigproof.stages.feeding.specs import specs
from rigproof.stages.feeding.table import feeding_tables
from rigproof.stages.slice import StageSlice

FEEDING = StageSlice("feeding", specs, SIMULATED, CRITERIA, tables=feeding_tables)
