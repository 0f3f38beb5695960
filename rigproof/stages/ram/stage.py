"""The RAM stage, put together."""

from rigproof.profiles.kinds.stages import Label, StageKind
from rigproof.stages.ram.criteria import CRITERIA
from rigproof.stages.ram.faults import FAULTS
from rigproof.stages.ram.lint import problems
from rigproof.stages.ram.settings import GB, STAGE, RamSettings
from rigproof.stages.ram.simulated import SIMULATED
from rigproof.stages.ram.specs import specs
from rigproof.stages.ram.table import ram_tables
from rigproof.stages.slice import StageSlice

KIND = StageKind(
    STAGE,
    "idle",
    RamSettings,
    lint=problems,
    crew="nodes",
    unit=GB,
    labels=(Label("operation", str), Label("content", str, optional=True), Label("threads", int)),
    events={
        "ram_error": "words of a host's RAM were not read as they were written; data.count, words",
        "ram_short": "too little RAM was free to copy",
    },
)
RAM = StageSlice(KIND, specs, SIMULATED, CRITERIA, FAULTS, tables=ram_tables)
