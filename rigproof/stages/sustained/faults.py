"""Faults that the criteria of this stage are there to notice, and names of those that they notice too."""

from rigproof.simulation.faults.kinds import CONTINUOUS, TIMES, FaultKind, Late
from rigproof.simulation.faults.lacks import no_peer

# A card that has them is slow from the begin of the run.
SLOW_CARD = ("clock-stuck", "thermal-throttle", "gpu-idle")
# A card that has them does no work of its own that a rate could be told from.
NO_RATE = ("cpu-fallback", "foreign-memory")

FAULTS = (
    FaultKind(
        "straggler",
        "gpu",
        "slower than its peers of the same SKU, within its floor",
        ("throughput.peer_outlier",),
        keys=(*TIMES, "by"),
        defaults={"by": "10%"},
        duties=CONTINUOUS,
        lacks=no_peer,
        why="A later stage that compares it with its peers shows it too.",
        late=Late(
            "10 % for a fifth of the time is 2 % of its rate, which is within what equal cards differ by; "
            "but its own rate falls inside the run",
            criterion="throughput.stability",
        ),
    ),
    FaultKind(
        "throughput-sag",
        "gpu",
        "the rate falls inside the run",
        ("throughput.stability",),
        keys=(*TIMES, "by"),
        defaults={"by": "12%", "after": "70%"},
        duties=("continuous", "bursts", "arms"),
        why="The card has not recovered when a later stage compares it with its peers.",
    ),
)
