"""What an idle device is. What was read of one says nothing of it at work."""

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.power_limits import enforced_power_within
from rigproof.criteria.evidence.sensors import power_field
from rigproof.criteria.evidence.windows import Window


def idles(
    used_percent: float | None,
    drawn_w: float | None,
    enforced_w: float | None,
    least_used_share: float,
    least_drawn_share: float,
) -> bool:
    """Whether both utilisation and power are below those of an active device; power counts if it is known.

    False without a utilisation: a card whose clock is stuck draws little, too, but is busy. The shares are
    `limits.active_utilization_share`, and `limits.active_power_share` of the enforced limit.
    """
    if used_percent is None or used_percent >= 100 * least_used_share:
        return False
    return drawn_w is None or enforced_w is None or drawn_w < least_drawn_share * enforced_w


def idled(device: DeviceEvidence, from_s: float | None, length_s: float | None) -> bool:
    """Whether the driver shows that it idled there (run time); False if that was not read."""
    if from_s is None or length_s is None:
        return False
    window = Window(from_s, from_s + length_s)
    read = device.loaded_samples(window)
    used, drawn = read.readings("utilization_percent"), read.readings(power_field(device))
    try:
        shares = [device.limit(name).value for name in ("active_utilization_share", "active_power_share")]
        enforced_w = enforced_power_within(device, window)
    except NotMeasured:  # no such limit, or readings that cannot be
        return False
    return idles(used.mean if used else None, drawn.mean if drawn else None, enforced_w, *shares)
