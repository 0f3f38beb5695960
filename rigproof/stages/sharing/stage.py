"""All of the sharing stage."""

from rigproof.profiles.planning.stages import ANY_LOAD, MULTIPLIED, Label, StageKind
from rigproof.stages.sharing.criteria import CRITERIA
from rigproof.stages.sharing.simulated import SIMULATED
from rigproof.stages.sharing.specs import specs
from rigproof.stages.sharing.table import sharing_tables
from rigproof.stages.slice import StageSlice

KIND = StageKind(
    "sharing",
    "arms",
    "sharing_s",
    optional=True,
    spawns=True,
    arms="processes",
    faults=(*ANY_LOAD, *MULTIPLIED, "sharing-collapse"),
    labels=(
        Label("precision", str, work=True),
        Label("size", int),
        Label("processes", int, work=True, process=True),  # that shared the device,
        Label("process", int, process=True),  # and which of them it was
    ),
)
SHARING = StageSlice(KIND, specs, SIMULATED, CRITERIA, tables=sharing_tables)
