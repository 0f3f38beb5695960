"""Does the card have the right power limit, and does it respect it?"""

from operator import itemgetter

import numpy as np

from rigproof.criteria.criterion import Criterion, Finding, Limit, NotApplicable, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.fed import WORKING_POWER_W, nearest_edge, power_failure
from rigproof.criteria.evidence.loads import FEWEST_SAMPLES, Load, over_loads
from rigproof.criteria.evidence.power_limits import (
    enforced_power_w,
    enforced_power_within,
    has_no_power_limit,
    keeps_power_limit,
)
from rigproof.criteria.evidence.sensors import readings_by_piece, require_possible
from rigproof.criteria.evidence.series import Readings
from rigproof.profiles.kinds.stages import DUTIES
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.tables.limits import LIMITS
from rigproof.records.verdict import Outcome
from rigproof.simulation.faults.kinds import FED, MID, TIMES, FaultKind, unstated

POWER_OVER_LIMIT_SHARE = LIMITS.key(lambda limits: limits.power_over_limit_share)
POWER_LIMIT_W = LIMITS.key(lambda limits: limits.power_limit_w)
POWER_CAP_FAIL_SHARE = LIMITS.key(lambda limits: limits.power_cap_fail_share)

ROUNDING_W = 0.5  # NVML counts milliwatts, profiles and SKU files watts
SHORTEST_S = 2.5  # of a mean: the "average" of some cards is instant, and exceeds the limit for a second


@Criterion(
    "power.draw",
    title="power",
    key_figure=True,
    unit="W",
    direction="at_most",
    limit="`limits.power_over_limit_share` of the power limit that NVML enforces; in the feeding stage "
    "`limits.working_power_w`, if the rig states it",
    limits=(POWER_OVER_LIMIT_SHARE, WORKING_POWER_W),
    severity="config",
    remedy="set the power limit again (`nvidia-smi -pl`), and check that the power supply carries all "
    "cards at once",
    unmeasured="too few readings of the power under load, a draw of 0 W, or a frozen sensor",
    idling="not measured",
    applies_to_cpu=False,
    needs=("continuous",),
    duties=DUTIES,
)
def draw(device: DeviceEvidence) -> Finding:
    """The average power stays at the enforced limit wherever work is measured.

    It is the mean of the driver's 1 s average over each stretch of measured work, short ones together and
    long ones in quarters, and over any 2.5 s of the load; without such an average, of the instant power in
    those stretches. While the card is fed, its
    mean power must be in its working range, if the rig states one.
    """
    require_power_limit(device)
    finding = over_loads(device, DUTIES, lambda load: _in_load(device, load))
    return (finding.outcome is Outcome.PASS and power_failure(device)) or finding


def _in_load(device: DeviceEvidence, load: Load) -> Finding:
    """The piece that is closest to its limit, or furthest over it."""
    average = device.recorded("power_average_w", load.window)
    field = "power_average_w" if average else "power_w"
    over = device.limit(POWER_OVER_LIMIT_SHARE)
    found = []
    read = readings_by_piece(device, load, field, "power", SHORTEST_S)
    if keeps_power_limit(device) and (short := _shortly_over(device, average, over)) is not None:
        return short
    for piece, mean_w in zip(read.pieces, read.means.tolist(), strict=True):
        if mean_w <= 0:
            raise NotMeasured(f"the power reads 0 W at t={piece.span.from_s:.0f} s")
        enforced_w = enforced_power_within(device, piece.span)
        if enforced_w is None:
            raise NotMeasured("NVML does not report the enforced power limit")
        found.append((mean_w / enforced_w, mean_w, enforced_w, piece))
    _, mean_w, enforced_w, piece = max(found, key=itemgetter(0))
    limit = _limit(enforced_w, over)
    if mean_w <= limit.value:
        return pass_or_fail(mean_w, limit, good=True)
    return pass_or_fail(mean_w, limit, good=False, from_s=piece.span.from_s, length_s=piece.length_s)


def _limit(enforced_w: float, over: Limit) -> Limit:
    return Limit(
        enforced_w * over.value, f"NVML's enforced {enforced_w:.0f} W × {over.value:g} of {over.source}"
    )


def _shortly_over(device: DeviceEvidence, average: Readings, over: Limit) -> Finding | None:
    """The failure of the SHORTEST_S in which the 1 s average was highest; None if it held the limit.

    A long piece would hide it. On H100 and H200 no such mean was over 0.999 of the limit.
    """
    times_s, watts, limit = average.times_s, average.values, _limit(enforced_power_w(device), over)
    at_once = max(FEWEST_SAMPLES, round(SHORTEST_S * device.evidence.rate_hz))
    if len(watts) < at_once or watts.max() <= limit.value:
        return None
    means_w = np.convolve(watts, np.ones(at_once) / at_once, "valid")
    lengths_s = times_s[at_once - 1 :] - times_s[: len(means_w)]
    means_w[lengths_s > 2 * SHORTEST_S] = 0.0  # too few samples to say
    place = int(means_w.argmax())
    if means_w[place] <= limit.value:
        return None
    from_s, length_s = float(times_s[place]), float(lengths_s[place])
    return pass_or_fail(float(means_w[place]), limit, good=False, from_s=from_s, length_s=length_s)


@Criterion(
    "power.limit",
    title="power limit",
    unit="W",
    direction="at_least",
    limit="`limits.power_limit_w`, if the rig states it; else the card's default limit (NVML's, else the SKU "
    "file's). A lower one warns, and one under `limits.power_cap_fail_share` of it fails",
    limits=(POWER_LIMIT_W, POWER_CAP_FAIL_SHARE),
    severity="config",
    remedy="set it with `nvidia-smi -pl`, or state the intended range as `limits.power_limit_w`",
    unmeasured="NVML reports no enforced limit, or one that no card can have, such as 0 W; not applicable "
    "to a card whose driver has none, such as laptops and virtual GPUs",
    applies_to_cpu=False,
)
def limit(device: DeviceEvidence) -> Finding:
    """The power limit in force is the one intended for the rig. It is read, never set.

    If it changes during the run, as with Dynamic Boost in laptops, the lowest one counts; against a range
    that the rig states, the lowest and the highest do.
    """
    require_power_limit(device)
    require_possible(device, "power_limit_w", "power limit")
    in_force = sorted({enforced_power_w(device), *device.readings("power_limit_w").values.tolist()})
    lowest_w, highest_w = in_force[0], in_force[-1]
    same = highest_w - lowest_w <= ROUNDING_W
    changed = "" if same else f"between {lowest_w:.0f} and {highest_w:.0f} W during the run"
    allowed, file = device.stated(POWER_LIMIT_W)
    if allowed is not None:
        return _in_range(in_force, allowed, file, changed)
    enforced_w = in_force[0]
    default = _default(device)
    if default is None:
        return Finding(Outcome.NO_LIMIT, enforced_w, detail="the card's default power limit is not known")
    fails = device.limit(POWER_CAP_FAIL_SHARE)
    least = Limit(fails.value * default.value, f"{fails.source}, of {default.source}")
    if enforced_w < least.value - ROUNDING_W:
        detail = f"a cap far below the card's default of {default.value:.0f} W"
        step = _restore(device, enforced_w, default.value)
        return pass_or_fail(enforced_w, least, good=False, detail=_joined(detail, changed), remedy=step)
    if enforced_w < default.value - ROUNDING_W:
        detail = "a cap below the card's default; floors of the SKU file are scaled to it"
        step = _restore(device, enforced_w, default.value)
        return Finding(Outcome.WARN, enforced_w, default, _joined(detail, changed), step)
    raised = "above the card's default" if enforced_w > default.value + ROUNDING_W else ""
    return pass_or_fail(_unrounded(enforced_w, default), default, good=True, detail=_joined(raised, changed))


def _restore(device: DeviceEvidence, enforced_w: float, default_w: float) -> str:
    """The command that removes a cap, and the key by which it is stated as intended."""
    command = f"`nvidia-smi -i {device.identity.index} -pl {default_w:.0f}`"
    meant = f"`limits.power_limit_w = [{enforced_w:.0f}, {enforced_w:.0f}]`"
    return f"restore it on {device.device.node} with {command}; if it is intended, state {meant}"


def _in_range(in_force: list[float], allowed: tuple[float, float], file: str, changed: str) -> Finding:
    low_w, high_w = allowed
    # The value furthest outside the range is reported; the lowest if all are inside.
    enforced_w = max(in_force, key=lambda one: (max(low_w - one, one - high_w, 0.0), -one))
    nearest = nearest_edge(enforced_w, allowed, file)
    good = low_w - ROUNDING_W <= enforced_w <= high_w + ROUNDING_W
    return pass_or_fail(
        _unrounded(enforced_w, nearest),
        nearest,
        good=good,
        detail=_joined(f"allowed: {low_w:g} to {high_w:g} W", changed),
    )


def _unrounded(watts: float, limit: Limit) -> float:
    """A reading that differs from the limit by rounding only is that limit."""
    return limit.value if abs(watts - limit.value) <= ROUNDING_W else watts


def require_power_limit(device: DeviceEvidence) -> None:
    """NotApplicable on a card without a power limit; NotMeasured if one exists but is not reported."""
    if device.identity.power_limit_w is None and has_no_power_limit(device):
        raise NotApplicable("this card's driver reports no power limit")
    assert enforced_power_w(device) > 0


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _default(device: DeviceEvidence) -> Limit | None:
    default_w = device.identity.power_limit_default_w
    if default_w is not None and default_w > 0:
        return Limit(default_w, "NVML's default power limit")
    sku = device.device.sku
    return None if sku is None else Limit(sku.power_limit_w, device.sku_file)


NO_RANGE = unstated("power_limit_w")


def _has_range(loaded: LoadedRig, device: PromisedDevice) -> str:
    return "" if NO_RANGE(loaded, device) else "limits.power_limit_w: take power-limit-off"


FAULTS = (
    FaultKind(
        "power-over-limit",
        "the card draws more than its enforced limit",
        ("power.draw",),
        keys=(*TIMES, "by"),
        defaults={"by": "10%", **MID},
        duties=DUTIES,
        least_s=3.0,
    ),
    FaultKind(
        "power-out-of-range",
        "the mean power leaves the working range while the card is fed",
        ("power.draw",),
        keys=("stage", "to"),
        duties=FED,
        lacks=unstated("working_power_w"),
    ),
    FaultKind(
        "power-capped",
        "a user lowered the power limit; to= is in W",
        ("power.limit",),
        ends="warns",
        keys=("to",),
        lacks=_has_range,
    ),
    FaultKind(
        "power-limit-off",
        "the enforced power limit is outside the range that the rig states",
        ("power.limit",),
        keys=("to",),
        lacks=NO_RANGE,
    ),
)
