"""The training stage, put together."""

from collections.abc import Sequence

from rigproof.profiles.kinds.stages import Label, StageKind
from rigproof.profiles.tables.sku import PRECISIONS
from rigproof.records.measurements import Event
from rigproof.stages.slice import StageSlice
from rigproof.stages.training.criteria import CRITERIA
from rigproof.stages.training.faults import FAULTS
from rigproof.stages.training.lint import problems
from rigproof.stages.training.precision import measured_rounds
from rigproof.stages.training.settings import SPEEDUP, STEP, TrainingSettings
from rigproof.stages.training.simulated import SIMULATED
from rigproof.stages.training.specs import specs
from rigproof.stages.training.table import training_tables


def _skipped(events: Sequence[Event]) -> bool:
    """Whether a batch of the sweep did not fit: the largest come last, and nothing is done in their time."""
    return any(one.kind == "batch_search" and one.data.get("what") == "skipped" for one in events)


KIND = StageKind(
    "training",
    "bursts",
    TrainingSettings,
    (STEP, SPEEDUP),
    shortest_s=3.8,
    lint=problems,
    labels=(
        Label("precision", str, PRECISIONS, work=True),
        # "precision", "search" or "sweep"; a search allocates memory between its steps
        Label("part", str, work=True, rests=("search",)),
        Label("size", int),  # the model's width
        Label("batch", int),  # examples of each step
        Label("steps", int, amount=True),  # of the round
    ),
    left_out=_skipped,
    events={
        "model": "the model that is trained; data.width, blocks, vocabulary, sequence, parameters, held_mib",
        "training": "the outcome of a precision's steps; data.precision, batch, first_loss, last_loss, …",
        "batch_search": "a batch size's memory; data.what, batch, peak_mib, limit_mib",
        "overflow": "fp16 training steps that overflowed and made no update; data.precision, batch, steps",
    },
)
QUIET = ("batch_search", "model", "overflow", "training")
TRAINING = StageSlice(
    KIND,
    specs,
    SIMULATED,
    CRITERIA,
    FAULTS,
    tables=training_tables,
    measured=measured_rounds,
    quiet_events=QUIET,
)
