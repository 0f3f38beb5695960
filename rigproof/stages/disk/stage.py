"""The disk stage, put together."""

from rigproof.profiles.kinds.stages import Label, StageKind
from rigproof.stages.disk.criteria import CRITERIA
from rigproof.stages.disk.faults import FAULTS
from rigproof.stages.disk.lint import problems
from rigproof.stages.disk.settings import MB, STAGE, DiskSettings
from rigproof.stages.disk.simulated import SIMULATED
from rigproof.stages.disk.specs import specs
from rigproof.stages.disk.table import disk_tables
from rigproof.stages.slice import StageSlice

KIND = StageKind(
    STAGE,
    "idle",
    DiskSettings,
    lint=problems,
    crew="nodes",
    unit=MB,
    labels=(Label("operation", str),),
    events={"disk_error": "a chunk was not read back as it was written; data.offset"},
)
DISK = StageSlice(KIND, specs, SIMULATED, CRITERIA, FAULTS, tables=disk_tables)
