"""All of the training stage."""

from rigproof.profiles.kinds.stages import StageKind
from rigproof.stages.slice import StageSlice
from rigproof.stages.training.criteria import CRITERIA
from rigproof.stages.training.faults import FAULTS, NOTICED
from rigproof.stages.training.lint import problems
from rigproof.stages.training.precision import measured_rounds
from rigproof.stages.training.settings import SPEEDUP, STEP, TrainingSettings
from rigproof.stages.training.simulated import SIMULATED
from rigproof.stages.training.specs import specs
from rigproof.stages.training.table import training_tables

KIND = StageKind("training", "bursts", TrainingSettings, (STEP, SPEEDUP), lint=problems)
QUIET = ("batch_search", "model", "overflow", "training")
TRAINING = StageSlice(
    KIND,
    specs,
    SIMULATED,
    CRITERIA,
    FAULTS,
    NOTICED,
    tables=training_tables,
    measured=measured_rounds,
    quiet_events=QUIET,
)
