"""Faults that this stage's criteria must notice, and names of others that they also notice."""

from rigproof.simulation.faults.kinds import CONTINUOUS, TIMES, FaultKind, Late, Noticed
from rigproof.simulation.faults.lacks import no_peer

# They make a card slow from the beginning of the run.
SLOW_CARD = ("clock-stuck", "thermal-throttle", "gpu-idle")
SLOW_FED = ("clock-drops-idle", "power-out-of-range")  # while it is fed
# They leave a card without work of its own, and so without a rate.
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
        why="A later stage that compares it with its peers also shows it.",
        late=Late(
            "10 % for a fifth of the time is 2 % of its rate, which is within the spread of equal cards; "
            "but its own rate falls during the run",
            criterion="throughput.stability",
        ),
    ),
    FaultKind(
        "throughput-sag",
        "gpu",
        "the rate falls during the run",
        ("throughput.stability",),
        keys=(*TIMES, "by"),
        defaults={"by": "12%", "after": "70%"},
        duties=("continuous", "bursts", "arms"),
        why="The card has not recovered when a later stage compares it with its peers.",
    ),
)
NOTICED = {
    "vram-stuck-bit": Noticed(criterion="activity.gpu_active"),  # as a wrong product
}
