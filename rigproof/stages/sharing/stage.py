"""The sharing stage, put together."""

from operator import attrgetter

from rigproof.profiles.kinds.stages import Label, StageKind
from rigproof.profiles.tables.sku import PRECISIONS
from rigproof.stages.sharing.criteria import CRITERIA
from rigproof.stages.sharing.faults import FAULTS
from rigproof.stages.sharing.lint import problems
from rigproof.stages.sharing.settings import SharingSettings
from rigproof.stages.sharing.simulated import SIMULATED
from rigproof.stages.sharing.specs import specs
from rigproof.stages.sharing.table import sharing_tables
from rigproof.stages.slice import StageSlice

KIND = StageKind(
    "sharing",
    "arms",
    SharingSettings,
    shortest_s=5.0,
    lint=problems,
    spawns=attrgetter("most_workers"),
    arms="processes",
    labels=(
        Label("precision", str, PRECISIONS, work=True),
        Label("size", int, told=True),
        # Recordings of the first version have a warm-up of the worker itself, without these two.
        Label("processes", int, optional=True, work=True, process=True),  # the number that shared the device
        Label("process", int, optional=True, process=True),  # which of them did the round
    ),
)
SHARING = StageSlice(KIND, specs, SIMULATED, CRITERIA, FAULTS, tables=sharing_tables)
