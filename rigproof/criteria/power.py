"""Does the card keep its power limit?"""

from statistics import fmean

from rigproof.criteria.criterion import Finding, Limit, NotMeasured, compared, criterion
from rigproof.criteria.sensors import moving_readings
from rigproof.criteria.subjects import DeviceEvidence
from rigproof.criteria.windows import values_by_slice


@criterion(
    "power.draw",
    scope="device",
    unit="W",
    limit="`limits.power_over_limit_share` of the power limit that NVML enforces",
    remedy="set the power limit again (`nvidia-smi -pl`), and check that the power supply carries all "
    "cards at once",
    unmeasured="too few readings of the power under load, a draw of 0 W, or a frozen sensor",
    faults=("power-over-limit",),
    applies_to_cpu=False,
    stages=("sustained",),
)
def draw(device: DeviceEvidence) -> Finding:
    """The average power stays at the enforced limit, in each quarter of the sustained stage.

    It is the mean of the driver's 1 s average; of the instant power where the driver has no average.
    """
    window = device.evidence.complete_window("sustained")
    samples = device.loaded_samples(window)
    average = any(sample.power_average_w is not None for sample in samples)
    field = "power_average_w" if average else "power_w"
    pairs = moving_readings(device, window, field, "power")
    quarters = window.quarters()
    means = [fmean(values) if values else 0.0 for values in values_by_slice(pairs, quarters)]
    if min(means) <= 0:
        raise NotMeasured("the power reads 0 W, or was not read, for a quarter of the stage")
    enforced_w = device.enforced_power_w
    over = device.limit("power_over_limit_share")
    limit = Limit(
        enforced_w * over.value, f"NVML's enforced {enforced_w:.0f} W × {over.value:g} of {over.source}"
    )
    highest_w = max(means)
    good = highest_w <= limit.value
    start_s = None if good else quarters[means.index(highest_w)].from_s
    return compared(
        highest_w, limit, good=good, from_s=start_s, length_s=None if good else quarters[0].length_s
    )
