"""The transient stage, put together."""

from rigproof.profiles.kinds.stages import Label, StageKind
from rigproof.profiles.tables.sku import PRECISIONS
from rigproof.stages.slice import StageSlice
from rigproof.stages.transient.criteria import CRITERIA
from rigproof.stages.transient.faults import FAULTS
from rigproof.stages.transient.lint import problems
from rigproof.stages.transient.remarks import remarks
from rigproof.stages.transient.settings import STAGE, TransientSettings
from rigproof.stages.transient.simulated import SIMULATED
from rigproof.stages.transient.specs import specs
from rigproof.stages.transient.table import transient_tables

KIND = StageKind(
    STAGE,
    "arms",
    TransientSettings,
    lint=problems,
    remarks=remarks,
    crew="hosts",
    labels=(
        Label("precision", str, PRECISIONS),
        Label("size", int, told=True, may_shrink=True),  # `Waves.require_size`
        Label("gpus", int, work=True),  # of the host that take part
        Label("hz", int, work=True),
    ),
    events={"waves_left_out": "a GPU takes no part in the waves of its host; the message says why"},
)
TRANSIENT = StageSlice(
    KIND,
    specs,
    SIMULATED,
    CRITERIA,
    FAULTS,
    tables=transient_tables,
    quiet_events=("waves_left_out",),
)
