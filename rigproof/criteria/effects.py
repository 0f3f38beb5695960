"""What faults do to a criterion that they are not there for, and names of faults that do the same."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Also:
    """Faults that change a criterion's verdict too, as they are written behind `--inject`, without a subject.

    Those that are there for it (`FaultKind.trips`) are not repeated here, but with keys of their own they
    are. Nor are those that take a device or node away altogether (`FaultKind.absent`), except where the
    criterion judges the rig.
    """

    fails: tuple[str, ...] = ()
    warns: tuple[str, ...] = ()
    unmeasured: tuple[str, ...] = ()


NOTHING_ELSE = Also()

# What they hit is not there from the start.
ABSENT = ("node-missing", "gpu-missing", "gpu-hidden", "driver-mismatch")
# What they hit is gone in the middle of its work: it is asked nothing more.
LOST = ("node-lost", "reset", "gpu-lost")
# Nobody reads the card's sensors and counters from then on.
UNREAD = (*LOST, "nvml-hang")
# Nobody reads its sensors for a while, or from then on.
UNSAMPLED = (*UNREAD, "host-frozen")
# The card does no more work, whoever asks for some.
BROKEN = (*LOST, "ecc-uncorrected")
# A worker does no more work until it is replaced after the stage.
WORKER_LOST = ("hung-kernel", "worker-killed", "worker-frozen")
# No stage that follows gets any work of the card, and one that goes on is broken off.
WITHOUT_WORK = (*BROKEN, "foreign-memory")
# What it drew is not known.
POWER_UNKNOWN = ("sensor-missing:field=power", "sensor-frozen", "sensor-shifted", "sensor-impossible")
