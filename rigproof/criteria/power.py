"""Has the card the power limit that it should have, and does it keep it?"""

from statistics import fmean

from rigproof.criteria.criterion import Finding, Limit, NotApplicable, NotMeasured, compared, criterion
from rigproof.criteria.sensors import moving_readings
from rigproof.criteria.series import values
from rigproof.criteria.subjects import DeviceEvidence
from rigproof.criteria.windows import values_by_slice
from rigproof.criteria.working_range import power_failure
from rigproof.records.verdict import Outcome

ROUNDING_W = 0.5  # NVML counts milliwatts, profiles and SKU files watts


@criterion(
    "power.draw",
    scope="device",
    unit="W",
    limit="`limits.power_over_limit_share` of the power limit that NVML enforces; in the feeding stage "
    "`limits.working_power_w`, where the rig states it",
    remedy="set the power limit again (`nvidia-smi -pl`), and check that the power supply carries all "
    "cards at once",
    unmeasured="too few readings of the power under load, a draw of 0 W, or a frozen sensor",
    faults=("power-over-limit", "power-out-of-range"),
    applies_to_cpu=False,
    stages=("sustained",),
)
def draw(device: DeviceEvidence) -> Finding:
    """The average power stays at the enforced limit, in each quarter of the sustained stage.

    It is the mean of the driver's 1 s average; of the instant power where the driver has no average. While
    the card is fed, its mean power is in its working range, if the rig states one.
    """
    window = device.evidence.complete_window("sustained")
    average = values(device.loaded_samples(window), "power_average_w")
    field = "power_average_w" if average else "power_w"
    pairs = moving_readings(device, window, field, "power")
    quarters = window.quarters()
    means = [fmean(those) if those else 0.0 for those in values_by_slice(pairs, quarters)]
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
    finding = compared(
        highest_w, limit, good=good, from_s=start_s, length_s=None if good else quarters[0].length_s
    )
    return (good and power_failure(device)) or finding


@criterion(
    "power.limit",
    scope="device",
    unit="W",
    limit="`limits.power_limit_w`; where the rig states none, the card's default limit (NVML's, else the SKU "
    "file's), and a lower one only warns",
    remedy="set it with `nvidia-smi -pl`, or state the range that you mean as `limits.power_limit_w`",
    unmeasured="NVML reports no enforced limit; not applicable on a card whose driver reports no power",
    faults=("power-limit-off",),
    warns_on=("power-capped",),
    applies_to_cpu=False,
)
def limit(device: DeviceEvidence) -> Finding:
    """The power limit in force is the one that the rig is meant to run at. It is read, never set."""
    if device.identity.power_limit_w is None and device.lacks_sensor("power_limit_w"):
        raise NotApplicable("this card's driver reports no power limit")
    enforced_w = device.enforced_power_w
    allowed = device.device.limits.power_limit_w
    if allowed is not None:
        low_w, high_w = allowed
        source = device.source_of("limits.power_limit_w")
        nearest = Limit(low_w if enforced_w < low_w else high_w, source)
        good = low_w - ROUNDING_W <= enforced_w <= high_w + ROUNDING_W
        return compared(enforced_w, nearest, good=good, detail=f"allowed: {low_w:g} to {high_w:g} W")
    default = _default(device)
    if default is None:
        return Finding(Outcome.NO_LIMIT, enforced_w, detail="the card's default power limit is not known")
    if enforced_w < default.value - ROUNDING_W:
        detail = "a cap under the card's default; floors of the SKU file are scaled to it"
        return Finding(Outcome.WARN, enforced_w, default, detail)
    raised = "over the card's default" if enforced_w > default.value + ROUNDING_W else ""
    return compared(enforced_w, default, good=True, detail=raised)


def _default(device: DeviceEvidence) -> Limit | None:
    default_w = device.identity.power_limit_default_w
    if default_w is not None and default_w > 0:
        return Limit(default_w, "NVML's default power limit")
    sku = device.device.sku
    return None if sku is None else Limit(sku.power_limit_w, device.sku_file)
