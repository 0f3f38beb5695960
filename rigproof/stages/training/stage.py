"""All of the training stage."""

from rigproof.profiles.planning.stages import StageKind
from rigproof.stages.slice import StageSlice
from rigproof.stages.training.criteria import CRITERIA
from rigproof.stages.training.faults import FAULTS, NOTICED
from rigproof.stages.training.simulated import SIMULATED
from rigproof.stages.training.specs import specs
from rigproof.stages.training.table import training_tables

KIND = StageKind("training", "bursts", "training_s", optional=True)
TRAINING = StageSlice(KIND, specs, SIMULATED, CRITERIA, FAULTS, NOTICED, tables=training_tables)
