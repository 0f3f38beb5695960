"""Side effects of faults on criteria that they were not made for; groups of faults with the same effects."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Also:
    """Faults that also change a criterion's verdict, as written after `--hw-inject`, without a subject.

    Faults made for the criterion (`FaultKind.trips`) are listed only if they have keys of their own. Faults
    that remove a device or node altogether (`FaultKind.absent`) are listed only if the criterion judges the
    rig.
    """

    fails: tuple[str, ...] = ()
    warns: tuple[str, ...] = ()
    unmeasured: tuple[str, ...] = ()


NOTHING_ELSE = Also()

# Their subject is absent from the start.
ABSENT = ("node-missing", "gpu-missing", "gpu-hidden", "driver-mismatch")
# Their subject disappears during its work and is not queried again.
LOST = ("node-lost", "reset", "gpu-lost")
# The card's sensors and counters are not read from then on.
UNREAD = (*LOST, "nvml-hang")
# The card's sensors are not read for a while, or from then on.
UNSAMPLED = (*UNREAD, "host-frozen")
# The card does no more work, for any worker.
BROKEN = (*LOST, "ecc-uncorrected")
# A worker does no more work until it is replaced after the stage.
WORKER_LOST = ("hung-kernel", "worker-killed", "worker-frozen")
# The card does no work in any later stage, and the current one is aborted.
WITHOUT_WORK = (*BROKEN, "foreign-memory")
# Results are wrong, so that their rounds are no work.
WRONG_RESULTS = ("bit-flip", "wrong-element", "wrong-tile")
# A word of the card's memory is not as it was written, which a worker reports as a wrong result.
WRONG_MEMORY = ("vram-stuck-bit", "vram-soft-error")
# The card's power is unknown.
POWER_UNKNOWN = ("sensor-missing:field=power", "sensor-frozen", "sensor-shifted", "sensor-impossible")
