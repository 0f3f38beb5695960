"""Whether a device idled while something else of it was read, which then says nothing of it at work."""

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.power_limits import enforced_power_within
from rigproof.criteria.evidence.sensors import power_field
from rigproof.criteria.evidence.windows import Window


def idled(device: DeviceEvidence, from_s: float | None, length_s: float | None) -> bool:
    """Whether the driver shows that it did nothing there (run time); False if that was not read.

    Both its utilisation and its power are below those of an active one (activity.gpu_active): a card whose
    clock is stuck draws little, too, but is busy.
    """
    if from_s is None or length_s is None:
        return False
    window = Window(from_s, from_s + length_s)
    read = device.loaded_samples(window)
    used, drawn = read.readings("utilization_percent"), read.readings(power_field(device))
    try:
        if not used or used.mean >= 100 * device.limit("active_utilization_share").value:
            return False
        enforced_w = enforced_power_within(device, window)
        least_w = device.limit("active_power_share").value * (enforced_w or 0.0)
    except NotMeasured:  # no such limit, or readings that cannot be
        return False
    return enforced_w is None or not drawn or drawn.mean < least_w
