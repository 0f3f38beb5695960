"""All of the training stage."""

from rigproof.stages.slice import StageSlice
from rigproof.stages.training.criteria import CRITERIA
from rigproof.stages.training.simulated import SIMULATED
from rigproof.stages.training.specs import specs
from rigproof.stages.training.table import training_tables

TRAINING = StageSlice("training", specs, SIMULATED, CRITERIA, tables=training_tables)
