"""Faults that this stage's criteria must notice."""

from rigproof.simulation.faults.kinds import CONTINUOUS, TIMES, FaultKind
from rigproof.simulation.faults.lacks import no_peer

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
    ),
    FaultKind(
        "throughput-sag",
        "gpu",
        "the rate falls during the run",
        ("throughput.stability",),
        keys=(*TIMES, "by"),
        defaults={"by": "12%", "after": "70%"},
        duties=("continuous", "bursts", "arms"),
    ),
)
