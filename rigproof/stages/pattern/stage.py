"""The pattern stage, put together."""

from collections.abc import Sequence

from rigproof.profiles.kinds.stages import HeldAgainst, Label, Need, StageKind
from rigproof.records.measurements import Event
from rigproof.stages.pattern.criteria import CRITERIA
from rigproof.stages.pattern.faults import FAULTS
from rigproof.stages.pattern.lint import problems
from rigproof.stages.pattern.plan import plan
from rigproof.stages.pattern.settings import FADE, GB, STAGE, PatternSettings
from rigproof.stages.pattern.simulated import SIMULATED
from rigproof.stages.pattern.specs import specs
from rigproof.stages.pattern.table import pattern_tables
from rigproof.stages.slice import StageSlice


def _by_triton(events: Sequence[Event]) -> bool:
    """Whether its passes were Triton's: torch's operations take several times as long."""
    return any(one.kind == "pattern_kernels" and one.data.get("by") == "Triton" for one in events)


KIND = StageKind(
    STAGE,
    "bursts",
    PatternSettings,
    plan=plan,
    shortest_s=4.0,
    lint=problems,
    unit=GB,
    labels=(  # none separates work: a pass is too short for the sensors, but all of them together are not
        Label("pattern", str, rests=(FADE,)),
        Label("operation", str),
        Label("size", int, amount=True),  # MiB that each pass goes over
        Label("heat", str, optional=True),  # of passes that are compared with each other: "cold" or "hot"
    ),
    held_against=HeldAgainst("memory bandwidth", (Need(GB),), _by_triton, every=True),
    events={
        "pattern_kernels": "what does the passes over the memory; data.by, reason if it is not Triton",
        "pattern_unchecked": "a pass that proves nothing: it skipped words, or missed a wrong one",
        "pattern_result": "what all passes found; data.passes, bad_passes, most (wrong words of one), …",
    },
)
QUIET = ("pattern_kernels", "pattern_result")
PATTERN = StageSlice(KIND, specs, SIMULATED, CRITERIA, FAULTS, tables=pattern_tables, quiet_events=QUIET)
