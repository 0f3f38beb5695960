"""The transfer stage, put together."""

from rigproof.profiles.kinds.stages import Label, StageKind
from rigproof.stages.slice import StageSlice
from rigproof.stages.transfer.criteria import CRITERIA
from rigproof.stages.transfer.faults import FAULTS
from rigproof.stages.transfer.lint import problems
from rigproof.stages.transfer.plan import planned
from rigproof.stages.transfer.settings import FIGURES, GB, STAGE, TransferSettings
from rigproof.stages.transfer.simulated import SIMULATED
from rigproof.stages.transfer.specs import specs
from rigproof.stages.transfer.table import transfer_tables

KIND = StageKind(
    STAGE,
    "rests",
    TransferSettings,
    tuple(FIGURES.values()),
    plan=planned,
    lint=problems,
    unit=GB,
    labels=(Label("direction", str), Label("company", str), Label("mib", int, told=True, may_shrink=True)),
    events={"turn_missed": "a card was not ready when its turn to transfer alone came; data.late_s"},
)
TRANSFER = StageSlice(KIND, specs, SIMULATED, CRITERIA, FAULTS, tables=transfer_tables)
