"""The working ranges that a rig may state for a card that is fed well, judged while it generates."""

from rigproof.criteria.criterion import Finding, Limit, pass_or_fail
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.fed import fed
from rigproof.criteria.evidence.sensors import moving_readings


def power_failure(device: DeviceEvidence) -> Finding | None:
    """A failure if the mean power is outside `limits.working_power_w`; None if inside or not stated."""
    samples_have_it = device.samples.recorded("power_w")
    return _failure(device, "working_power_w", "power_w" if samples_have_it else "power_average_w", "power")


def temperature_failure(device: DeviceEvidence) -> Finding | None:
    """The same for the mean core temperature and `limits.working_temperature_c`."""
    return _failure(device, "working_temperature_c", "core_temperature_c", "core temperature")


def nearest_edge(value: float, allowed: tuple[float, float], source: str) -> Limit:
    """The edge of a range that a value is closest to, as a limit."""
    low, high = allowed
    if abs(value - low) < abs(value - high):
        return Limit(low, source, "at_least")
    return Limit(high, source, "at_most")


def _failure(device: DeviceEvidence, key: str, field: str, what: str) -> Finding | None:
    """NotMeasured if a range is stated and the stage ran, but the sensor was not read."""
    allowed: tuple[float, float] | None = getattr(device.device.limits, key)
    stages = device.evidence.stages_with("fed")
    if allowed is None or not any(one in device.evidence.recording.stages for one in stages):
        return None
    window = fed(device).window
    mean = moving_readings(device, window, field, what).mean
    low, high = allowed
    if low <= mean <= high:
        return None
    return pass_or_fail(
        mean,
        nearest_edge(mean, allowed, device.source_of(f"limits.{key}")),
        good=False,
        detail=f"mean {what} in the {stages[0]} stage; allowed: {low:g} to {high:g}",
        remedy="see in the report what the card waited for, or state another range",
        from_s=window.from_s,
        length_s=window.length_s,
    )
