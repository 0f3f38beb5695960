"""Whether a GPU's readings can be believed: a sensor that stands still measures nothing.

Three rules, each only over at least FROZEN_SAMPLES readings:

1. Core temperature, power and SM clock that all stand still for POWER_FROZEN_S under load: the readings are
   repeated.
2. Power alone, for as long: NVML counts milliwatts, and no GPU draws the same milliwatts for so long under
   load. An H200 at its power cap never gave the same value for more than 0.1 s.
3. A temperature alone may stand still, so it counts as frozen only where it has not moved in the whole
   run, TEMPERATURE_FROZEN_S or more, although the load more than doubled the power.

A clock alone proves nothing: a GPU that reaches its maximum stays there. The shortest level's sustained stage
lasts some 15 s, so what takes longer to tell is looked for in the whole run.
"""

from collections.abc import Sequence

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.readings import Readings
from rigproof.criteria.series import readings
from rigproof.criteria.subjects import DeviceEvidence
from rigproof.criteria.windows import Window
from rigproof.records.samples import GpuSample

# Validity of a reading, not limits of a rig: shorter stretches can be constant by chance.
POWER_FROZEN_S = 10.0
TEMPERATURE_FROZEN_S = 30.0
FROZEN_SAMPLES = 10  # so that a rig that is read once a second is looked at too
LOAD_POWER_RATIO = 2.0
POWER = ("power_w", "power_average_w")
CORE = ("core_temperature_c", "power_w", "sm_clock_mhz")


def stands_still(pairs: Readings, least_s: float) -> bool:
    """Whether one value was read all along, for at least `least_s`."""
    return (
        len(pairs) >= FROZEN_SAMPLES
        and pairs.times_s[-1] - pairs.times_s[0] >= least_s
        and pairs.values.count(pairs.values[0]) == len(pairs)
    )


def moving_readings(device: DeviceEvidence, window: Window, field: str, what: str) -> Readings:
    """Enough readings of a live sensor inside the window, else NotMeasured."""
    pairs = device.loaded_readings(window, field, what)
    if device.evidence.held(("frozen", device.subject, window), lambda: _all_frozen(device, window)):
        raise NotMeasured(
            "temperature, power and clock did not change at all under load: the sensors are frozen"
        )
    if field in POWER:
        frozen = stands_still(pairs, POWER_FROZEN_S) or stands_still(
            readings(device.samples, field), POWER_FROZEN_S
        )
    else:
        frozen = field.endswith("_temperature_c") and _never_warmed(device, field)
    if frozen:
        raise NotMeasured(f"the {what} reads {pairs[0][1]:g} all along: the sensor is frozen")
    return pairs


def _all_frozen(device: DeviceEvidence, window: Window) -> bool:
    """Rule 1."""
    samples = device.loaded_samples(window)
    return all(stands_still(readings(samples, name), POWER_FROZEN_S) for name in CORE)


def _never_warmed(device: DeviceEvidence, field: str) -> bool:
    """Rule 3, over the whole run."""
    samples = device.samples
    return stands_still(readings(samples, field), TEMPERATURE_FROZEN_S) and _power_doubled(samples)


def _power_doubled(samples: Sequence[GpuSample]) -> bool:
    """Whether the run's highest power is more than LOAD_POWER_RATIO times its lowest."""
    power = readings(samples, "power_w").values
    return bool(power) and max(power) > LOAD_POWER_RATIO * min(power)
