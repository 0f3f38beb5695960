"""Whether a GPU's readings can be believed: a sensor that stands still measures nothing.

Three rules, each only over at least FROZEN_S seconds and FROZEN_SAMPLES readings:

1. Core temperature, power and SM clock that all stand still under load: the readings are repeated.
2. Power alone: NVML counts milliwatts, and no GPU draws the same milliwatts for so long under load.
3. A temperature alone may stand still, so it counts as frozen only where it has not moved since before the
   load, although the load more than doubled the power.

A clock alone proves nothing: a GPU that reaches its maximum stays there.
"""

from collections.abc import Sequence

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.series import Reading, readings
from rigproof.criteria.subjects import DeviceEvidence
from rigproof.criteria.windows import Window
from rigproof.records.samples import GpuSample

# Validity of a reading, not limits of a rig: shorter stretches can be constant by chance.
FROZEN_S = 30.0
FROZEN_SAMPLES = 100
LOAD_POWER_RATIO = 2.0


def stands_still(pairs: Sequence[Reading]) -> bool:
    """Whether one value was read all along, for long enough to tell."""
    return (
        len(pairs) >= FROZEN_SAMPLES
        and pairs[-1][0] - pairs[0][0] >= FROZEN_S
        and len({value for _, value in pairs}) == 1
    )


def moving_readings(device: DeviceEvidence, window: Window, field: str, what: str) -> list[Reading]:
    """Enough readings of a live sensor inside the window, else NotMeasured."""
    pairs = device.loaded_readings(window, field, what)
    samples = device.loaded_samples(window)
    core = ("core_temperature_c", "power_w", "sm_clock_mhz")
    if all(stands_still(readings(samples, name)) for name in core):
        raise NotMeasured(
            "temperature, power and clock did not change at all under load: the sensors are frozen"
        )
    power = field in ("power_w", "power_average_w")
    if (power and stands_still(pairs)) or (field.endswith("_temperature_c") and _never_warmed(device, field)):
        raise NotMeasured(f"the {what} reads {pairs[0][1]:g} all along: the sensor is frozen")
    return pairs


def _never_warmed(device: DeviceEvidence, field: str) -> bool:
    """Rule 3, over the whole run."""
    samples = device.samples
    return stands_still(readings(samples, field)) and _power_doubled(samples)


def _power_doubled(samples: Sequence[GpuSample]) -> bool:
    """Whether the run's highest power is more than LOAD_POWER_RATIO times its lowest."""
    power = [value for _, value in readings(samples, "power_w")]
    return bool(power) and max(power) > LOAD_POWER_RATIO * min(power)
