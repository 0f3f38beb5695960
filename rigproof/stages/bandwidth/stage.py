"""The bandwidth stage, put together."""

from rigproof.profiles.kinds.stages import Label, StageKind
from rigproof.stages.bandwidth.criteria import CRITERIA
from rigproof.stages.bandwidth.faults import FAULTS
from rigproof.stages.bandwidth.lint import problems
from rigproof.stages.bandwidth.settings import FIGURES, GB, STAGE, BandwidthSettings
from rigproof.stages.bandwidth.simulated import SIMULATED
from rigproof.stages.bandwidth.specs import specs
from rigproof.stages.bandwidth.table import bandwidth_tables
from rigproof.stages.slice import StageSlice

KIND = StageKind(
    STAGE,
    "bursts",
    BandwidthSettings,
    tuple(FIGURES.values()),
    shortest_s=3.0,
    lint=problems,
    unit=GB,
    # `operation` does not separate work: each is too short for the sensors, but all of them together are not.
    labels=(Label("operation", str), Label("size", int, told=True)),
)
BANDWIDTH = StageSlice(KIND, specs, SIMULATED, CRITERIA, FAULTS, tables=bandwidth_tables)
