"""The replay stage, put together."""

from rigproof.profiles.kinds.stages import HeldAgainst, Label, Need, StageKind
from rigproof.profiles.tables.sku import PRECISIONS
from rigproof.records.measurements import TFLOP
from rigproof.stages.replay.criteria import CRITERIA
from rigproof.stages.replay.faults import FAULTS
from rigproof.stages.replay.lint import problems
from rigproof.stages.replay.settings import STAGE, ReplaySettings
from rigproof.stages.replay.simulated import SIMULATED
from rigproof.stages.replay.specs import specs
from rigproof.stages.replay.table import replay_tables
from rigproof.stages.slice import StageSlice

KIND = StageKind(
    STAGE,
    "bursts",
    ReplaySettings,
    shortest_s=4.0,
    lint=problems,
    labels=(
        Label("precision", str, PRECISIONS, work=True),
        Label("size", int),  # the model's width
        Label("batch", int, told=True),  # examples of each step
        Label("steps", int, amount=True, told=True),  # of the round
    ),
    held_against=HeldAgainst("training steps", (Need(TFLOP, ("size", "batch")),)),
    events={"replay": "the outcome of a device's replayed steps; data.precision, width, losses, runs, …"},
)
REPLAY = StageSlice(
    KIND,
    specs,
    SIMULATED,
    CRITERIA,
    FAULTS,
    tables=replay_tables,
    quiet_events=("replay",),
)
