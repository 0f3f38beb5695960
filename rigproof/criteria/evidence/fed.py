"""How busy a device was kept: how well its host fed it, whether it idled, and its working ranges."""

from dataclasses import dataclass

import numpy as np

from rigproof.criteria.criterion import Finding, Limit, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.clocks import NONE, Spans, within
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.evidence import SHORTEST_LOAD_S
from rigproof.criteria.evidence.power_limits import enforced_power_within
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.sensors import moving_readings, power_field
from rigproof.criteria.evidence.windows import Window
from rigproof.profiles.tables.base import LimitKey
from rigproof.profiles.tables.limits import LIMITS

IDLE_SHARE = LIMITS.key(lambda limits: limits.idle_share)

ACTIVE_UTILIZATION_SHARE = LIMITS.key(lambda limits: limits.active_utilization_share)
ACTIVE_POWER_SHARE = LIMITS.key(lambda limits: limits.active_power_share)
WORKING_POWER_W = LIMITS.key(lambda limits: limits.working_power_w)
WORKING_TEMPERATURE_C = LIMITS.key(lambda limits: limits.working_temperature_c)
Range = tuple[float, float]
WAITED = "see feeding.idle_gaps: a card that waits for rewards lowers its clock and its link"  # a remedy


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
    used, drawn = (device.readings(one, window) for one in ("utilization_percent", power_field(device)))
    try:
        shares = [device.limit(key).value for key in (ACTIVE_UTILIZATION_SHARE, ACTIVE_POWER_SHARE)]
        enforced_w = enforced_power_within(device, window)
    except NotMeasured:  # no such limit, or readings that cannot be
        return False
    return idles(used.mean if used else None, drawn.mean if drawn else None, enforced_w, *shares)


@dataclass(frozen=True, slots=True)
class Fed:
    """How a device was fed, from the start of its first measured round of generation to the end of its last.

    Before and after that, rewards are compared while the device waits.
    """

    window: Window
    idle_share: float  # the share of the window without a verified round
    gap_s: float  # the longest gap between verified rounds, and when it began
    gap_from_s: float


def fed_by(rounds: Rounds, uncounted: Spans = NONE) -> Fed:
    """From one device's rounds of a stage that feeds it. NotMeasured if it generated for too short a time.

    `uncounted`: when its host stood still.
    """
    generation = rounds.measured
    if not len(generation):
        raise NotMeasured("no round of generation was measured")
    window = Window(float(generation.begins_s.min()), float(generation.t_s.max()))
    length_s = window.length_s - within(uncounted, *window[:2])
    if length_s < SHORTEST_LOAD_S:
        raise NotMeasured(f"{length_s:.1f} s of generation are too short to measure")
    verified = generation.verified
    order = np.argsort(verified.t_s, kind="stable")
    ends_s = np.append(window.from_s, verified.t_s[order])
    gaps_s = np.append(verified.begins_s[order], window.to_s) - ends_s
    for place in (gaps_s > 0).nonzero()[0].tolist() if len(uncounted) else ():
        gaps_s[place] -= within(uncounted, ends_s[place], ends_s[place] + gaps_s[place])
    last = len(gaps_s) - 1 - int(gaps_s[::-1].argmax())  # of the longest ones
    idle_share = 1 - float(verified.seconds.sum()) / length_s
    return Fed(window, max(0.0, idle_share), max(0.0, float(gaps_s[last])), float(ends_s[last]))


def fed(device: DeviceEvidence) -> Fed:
    """How it was fed; NotMeasured if it was not."""
    stages = device.evidence.stages_with("fed")
    if not stages:
        raise NotMeasured("no stage of this run feeds the device")
    device.evidence.stage(stages[0])
    rounds = device.rounds(stages[0])
    cause = "" if len(rounds) else device.cause()
    if cause:
        raise NotMeasured(f"no round of generation: {cause}")
    return fed_by(rounds, device.uncounted)


def remedy_if_waited(device: DeviceEvidence) -> str:
    """The remedy for a fed card that waited too long; empty for one that did not."""
    most = device.optional_limit(IDLE_SHARE)
    if most is None or fed(device).idle_share <= most.value:
        return ""
    return WAITED


def power_failure(device: DeviceEvidence) -> Finding | None:
    """A failure if the mean power is outside `limits.working_power_w`; None if inside or not stated."""
    samples_have_it = device.recorded("power_w")
    return _failure(device, WORKING_POWER_W, "power_w" if samples_have_it else "power_average_w", "power")


def temperature_failure(device: DeviceEvidence) -> Finding | None:
    """A failure if the mean core temperature is outside `limits.working_temperature_c`.

    None if it is inside, or if no range is stated.
    """
    return _failure(device, WORKING_TEMPERATURE_C, "core_temperature_c", "core temperature")


def nearest_edge(value: float, allowed: Range, source: str) -> Limit:
    """The edge of a range that a value is closest to, as a limit."""
    low, high = allowed
    if abs(value - low) < abs(value - high):
        return Limit(low, source, "at_least")
    return Limit(high, source, "at_most")


def _failure(device: DeviceEvidence, key: LimitKey[Range | None], field: str, what: str) -> Finding | None:
    """NotMeasured if a range is stated and the stage ran, but the sensor was not read."""
    allowed, file = device.stated(key)
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
        nearest_edge(mean, allowed, file),
        good=False,
        detail=f"mean {what} in the {stages[0]} stage; allowed: {low:g} to {high:g}",
        remedy="see in the report what the card waited for, or state another range",
        from_s=window.from_s,
        length_s=window.length_s,
    )
