"""Does the card stay cool enough, and does it run without thermal throttling?"""

from collections import deque
from dataclasses import dataclass

import numpy as np

from rigproof.criteria.criterion import Criterion, Finding, Limit, NotApplicable, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.counters import (
    COUNTERS,
    POWER_BRAKE,
    THERMAL,
    THROTTLE,
    counted_s,
    durations_text,
    names_of,
)
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.fed import WORKING_TEMPERATURE_C, temperature_failure
from rigproof.criteria.evidence.sensors import require_moving, require_possible
from rigproof.criteria.evidence.series import Readings
from rigproof.criteria.evidence.windows import Window
from rigproof.profiles.kinds.stages import DEVICE_DUTIES, DUTIES
from rigproof.profiles.tables.limits import LIMITS
from rigproof.profiles.tables.sku import TemperatureLimits
from rigproof.records.verdict import Outcome, count_of
from rigproof.simulation.faults.kinds import FED, FROM, MID, PART, TIMES, FaultKind, unreported, unstated

CORE_TEMPERATURE_C = LIMITS.key(lambda limits: limits.core_temperature_c)
CORE_TEMPERATURE_NEVER_C = LIMITS.key(lambda limits: limits.core_temperature_never_c)
CORE_TEMPERATURE_WARN_C = LIMITS.key(lambda limits: limits.core_temperature_warn_c)
MEMORY_TEMPERATURE_C = LIMITS.key(lambda limits: limits.memory_temperature_c)
THROTTLE_SHARE = LIMITS.key(lambda limits: limits.throttle_share)
THROTTLE_EVENTS = LIMITS.key(lambda limits: limits.throttle_events)
THROTTLE_EVENT_S = LIMITS.key(lambda limits: limits.throttle_event_s)

# "Sustained", beside a limit that no single reading may pass: as long as the windows of throughput.stability.
SUSTAINED_S = 5.0
REASONS = "clock_event_reasons"
BRAKE = "check the card's power plugs and the power supply"
FEW_SAMPLES = 2  # slowed samples: more than 1 % of a short stage, but still only one short event


@Criterion(
    "thermal.core_temperature",
    title="core temperature",
    key_figure=True,
    unit="°C",
    direction="at_most",
    limit="`limits.core_temperature_c`, if the rig states it; else NVML's GPU_MAX, else its SLOWDOWN; else "
    "the SKU file's. If the rig states `limits.core_temperature_never_c`, that applies to every reading, and "
    "the limit to the mean of 5 s. Over `limits.core_temperature_warn_c` it warns. In the feeding stage "
    "`limits.working_temperature_c`, if the rig states it",
    limits=(CORE_TEMPERATURE_C, CORE_TEMPERATURE_NEVER_C, CORE_TEMPERATURE_WARN_C, WORKING_TEMPERATURE_C),
    severity="reseat",
    remedy="clean the heatsink or raise the fan curve",
    unmeasured="too few readings under load, or a frozen sensor",
    applies_to_cpu=False,
    needs=("continuous",),
    duties=DUTIES,
)
def core_temperature(device: DeviceEvidence) -> Finding:
    """The GPU's core never gets hotter than its limit, at any moment of the run.

    For a rig that states both an absolute and a sustained limit, single readings are judged by the first and
    the mean of 5 s by the second. While the card is fed, its mean temperature must be in its working range,
    if the rig states one.
    """
    identity, documented = device.identity, _documented(device)
    limits = [
        device.optional_limit(CORE_TEMPERATURE_C),
        _reported(identity.temperature_gpu_max_c, "NVML GPU_MAX"),
        _reported(identity.temperature_slowdown_c, "NVML SLOWDOWN"),
        _reported(documented.max_operating_c, device.sku_file),
        _reported(documented.slowdown_c, device.sku_file),
    ]
    field, what = "core_temperature_c", "core temperature"
    require_possible(device, field, what)
    pairs = device.readings(field)
    never = device.optional_limit(CORE_TEMPERATURE_NEVER_C)
    warn = device.optional_limit(CORE_TEMPERATURE_WARN_C)
    if never is not None:
        passed = _too_hot(device, pairs, never, "no reading may exceed it")
        if passed is not None:
            return passed
        pairs = _sustained(pairs)
    finding = _hottest(device, pairs, field, what, limits)
    if finding.outcome is Outcome.FAIL:
        return finding
    out_of_range = temperature_failure(device)
    if out_of_range is not None or warn is None:
        return out_of_range or finding
    early = _too_hot(device, pairs, warn, "an early warning")
    return finding if early is None else early._replace(outcome=Outcome.WARN)


@Criterion(
    "thermal.memory_temperature",
    title="memory temperature",
    unit="°C",
    direction="at_most",
    limit="`limits.memory_temperature_c`, if the rig states it; else NVML's MEM_MAX; else the SKU file's",
    limits=(MEMORY_TEMPERATURE_C,),
    severity="reseat",
    remedy="check airflow over the card's backplate; dried-out thermal pads on its memory are the usual "
    "cause",
    unmeasured="too few readings under load, or a frozen sensor; not applicable on a card whose driver "
    "reports none",
    applies_to_cpu=False,
    needs=("continuous",),
    duties=DUTIES,
)
def memory_temperature(device: DeviceEvidence) -> Finding:
    """The GPU's memory never gets hotter than its limit, at any moment of the run."""
    field = "memory_temperature_c"
    if device.samples and device.never_reads(field):
        raise NotApplicable("this card's driver reports no memory temperature")
    limits = [
        device.optional_limit(MEMORY_TEMPERATURE_C),
        _reported(device.identity.temperature_memory_max_c, "NVML MEM_MAX"),
        _reported(_documented(device).memory_max_c, device.sku_file),
    ]
    require_possible(device, field, "memory temperature")
    return _hottest(device, device.readings(field), field, "memory temperature", limits)


def _documented(device: DeviceEvidence) -> TemperatureLimits:
    """The SKU file's temperatures; none without a SKU file."""
    sku = device.device.sku
    return TemperatureLimits() if sku is None else sku.temperature


def _reported(value_c: float | None, source: str) -> Limit | None:
    """A limit ≤ 0 is no limit."""
    return Limit(value_c, source) if value_c is not None and value_c > 0 else None


def _hottest(
    device: DeviceEvidence, pairs: Readings, field: str, what: str, limits: list[Limit | None]
) -> Finding:
    """Compare the highest reading of the whole run with the first limit that exists."""
    limit = next((one for one in limits if one is not None), None)
    passed = None if limit is None else _too_hot(device, pairs, limit)
    if passed is not None:
        return passed
    for stage in device.evidence.stages_with(*DUTIES):
        require_moving(device, device.worked_window(stage), field, what)
    hottest_c = pairs.highest
    if limit is None:
        return Finding(Outcome.NO_LIMIT, hottest_c, detail=f"no limit of the {what} is known")
    return pass_or_fail(hottest_c, limit, good=True)


def _too_hot(device: DeviceEvidence, pairs: Readings, limit: Limit, detail: str = "") -> Finding | None:
    """A failure if any of the readings is over the limit."""
    hottest_c = pairs.highest
    if hottest_c <= limit.value:
        return None
    from_s = next(t_s for t_s, value in pairs if value > limit.value)
    length_s = _time_over_s(device, pairs, limit.value)
    return pass_or_fail(hottest_c, limit, good=False, detail=detail, from_s=from_s, length_s=length_s)


def _sustained(pairs: Readings) -> Readings:
    """For each reading the mean of the last SUSTAINED_S up to it; one mean if all together are shorter."""
    means: list[tuple[float, float]] = []
    last: deque[tuple[float, float]] = deque()
    total = 0.0
    for t_s, value in pairs:
        last.append((t_s, value))
        total += value
        while t_s - last[0][0] > SUSTAINED_S:
            total -= last.popleft()[1]
        if t_s - pairs.times_s[0] >= SUSTAINED_S:
            means.append((t_s, total / len(last)))
    return Readings.of_pairs(means or [(t_s, total / len(last)) for t_s in pairs.times_s[-1:].tolist()])


def _time_over_s(device: DeviceEvidence, pairs: Readings, limit_c: float) -> float:
    """The time over the limit, s: each reading holds until the next one, or for one step of the grid."""
    step_s = 1 / device.evidence.rate_hz
    held_s = np.minimum(np.diff(pairs.times_s, append=pairs.times_s[-1] + step_s), 2 * step_s)
    return float(held_s[pairs.values > limit_c].sum())


@Criterion(
    "thermal.throttle",
    title="throttling",
    unit="%",
    direction="at_most",
    limit="`limits.throttle_share` of the samples of any stage, where more than two are slowed; at most "
    "`limits.throttle_events` stretches of slowed samples in all stages (both attempts at a repeated stage "
    "count), none longer than `limits.throttle_event_s`. A slowdown within all three warns, "
    "and so does one that NVML counted for longer than the time between two samples and no sample shows. "
    "Power cap (0x4) and idle (0x1) do not count",
    limits=(THROTTLE_SHARE, THROTTLE_EVENTS, THROTTLE_EVENT_S),
    severity="reseat",
    remedy="cool the card if the reason is thermal; check plugs and power supply if it is the power brake",
    unmeasured="clock-event reasons were not read often enough under load, or a counter of them went back",
    applies_to_cpu=False,
    needs=("continuous",),
    duties=DUTIES,
)
def throttle(device: DeviceEvidence) -> Finding:
    """The driver does not slow the GPU down because of heat, a hardware fault or the power supply.

    Every stage of the run is judged, also one in which the card rests while its link or its host is measured.
    """
    require_possible(device, REASONS, "clock-event reason")
    loaded = device.evidence.stages_with(*DUTIES)
    recorded = device.evidence.recording.stages
    # Where no crew began, no time passed.
    began = (one for one in device.evidence.stages if one in recorded and recorded[one].workers)
    stages = dict.fromkeys((*loaded, *began))
    found = [_slowed(device, stage) for stage in stages]
    repeated = device.evidence.recording.earlier_attempts
    for number, before in enumerate(device.evidence.earlier_attempts):
        own = before.device(device.subject)
        found += [_slowed(own, stage) for stage, earlier in repeated.items() if number < len(earlier)]
    limit = device.limit(THROTTLE_SHARE).times(100)
    worst = max(found, key=lambda one: one.share)
    number = sum(len(one.events) for one in found)
    most, longest_s = device.limit(THROTTLE_EVENTS).value, device.limit(THROTTLE_EVENT_S).value
    events = [event for one in found for event in one.events]
    too_often = [one for one in found if one.share > limit.value and one.number > FEW_SAMPLES]
    if too_often or number > most or any(one.length_s > longest_s for one in events):
        samples = count_of(worst.known, "samples")
        detail = f"{names_of(worst.reasons)} in {worst.number} of {samples} of {worst.stage}"
        if number > 1:
            detail += f", {count_of(number, 'times')} in the run"
        first = min(events, key=lambda one: one.from_s)
        remedy = _remedy(worst.reasons)
        if worst.share > limit.value:
            return pass_or_fail(
                worst.share, limit, good=False, detail=detail, remedy=remedy, from_s=first.from_s
            )
        longest = max(one.length_s for one in events)
        allowed = "1 slowdown" if most == 1 else f"{most:g} slowdowns"
        detail += f"; allowed: {allowed} of {longest_s:g} s, the longest was {longest:.1f} s"
        return Finding(
            Outcome.FAIL, worst.share, detail=detail, remedy=remedy, source=limit.source, from_s=first.from_s
        )
    for stage in stages:
        if stage not in loaded and device.evidence.stage(stage).status == "failed":
            continue  # nobody loaded anything, and it was over at once
        of_stage = device.evidence.loaded_window if stage in loaded else device.evidence.whole_window
        device.require_readings(of_stage(stage), REASONS, "clock-event reason")
    if events:
        seen = f"{worst.number} of {count_of(worst.known, 'samples')} of {worst.stage}"
        times = "once" if number == 1 else f"{number} times"
        detail = f"{names_of(worst.reasons)} {times}, in {seen}"
        first_s = min(one.from_s for one in events)
        return Finding(Outcome.WARN, worst.share, limit, detail, _remedy(worst.reasons), from_s=first_s)
    return _by_counters(device, worst.share, limit)


def _by_counters(device: DeviceEvidence, share: float, limit: Limit) -> Finding:
    """No sample shows a slowdown; NVML's counters may. The detail is how long each reason held."""
    before, after = device.counters("before"), device.counters("after")
    for name in COUNTERS.values() if before and after else ():
        if (getattr(after, name) or 0.0) < (getattr(before, name) or 0.0):
            raise NotMeasured(f"the counter {name} went back during the run: it was reset, or misread")
    by_reason = counted_s(before, after)
    step_s = 1 / device.evidence.rate_hz
    unseen = {bit: seconds for bit, seconds in by_reason.items() if bit & THROTTLE}
    if sum(unseen.values()) > step_s:
        detail = f"NVML counted {durations_text(unseen)}, which no sample shows"
        reasons = sum(bit for bit, seconds in unseen.items() if seconds)
        return Finding(Outcome.WARN, share, limit, detail, _remedy(reasons))
    return pass_or_fail(share, limit, good=True, detail=durations_text(by_reason or _sampled_s(device)))


def _sampled_s(device: DeviceEvidence) -> dict[int, float]:
    """The time of each reason by the samples, s: for a driver that does not count it."""
    bits = device.readings(REASONS).values.astype(np.int64)
    step_s = 1 / device.evidence.rate_hz
    return {bit: step_s * int(np.count_nonzero(bits & bit)) for bit in COUNTERS}


def _remedy(reasons: int) -> str:
    """The next step for what slowed the card; empty if it can be either."""
    heat, brake = bool(reasons & THERMAL), bool(reasons & POWER_BRAKE)
    if heat is brake:
        return ""
    return "cool the card: clean its heatsink, raise the fan curve" if heat else BRAKE


@dataclass(frozen=True, slots=True)
class _Slowed:
    """The samples of a stage in which a card was slowed down."""

    stage: str
    known: int  # samples with known reasons
    number: int  # of those, slowed
    reasons: int
    events: tuple[Window, ...]  # stretches of slowed samples

    @property
    def share(self) -> float:
        """Slowed samples, % of those with known reasons."""
        return 100 * self.number / self.known if self.known else 0.0


def _slowed(device: DeviceEvidence, stage: str) -> _Slowed:
    """The samples of a stage, set-up included, in which the driver slowed the card down."""
    window = device.evidence.whole_window(stage)
    known = device.recorded(REASONS, window)
    bits = known.values.astype(np.int64) & THROTTLE
    slowed = bits != 0
    edges = np.flatnonzero(np.diff(slowed, prepend=False, append=False)).reshape(-1, 2)
    times_s = known.times_s.tolist()
    events = tuple(Window(times_s[first], times_s[end - 1]) for first, end in edges.tolist())
    return _Slowed(stage, len(known), int(slowed.sum()), int(np.bitwise_or.reduce(bits)), events)


FAULTS = (
    FaultKind(
        "overheat",
        "the cooling fails: the core exceeds its limit; to= is the temperature at which it settles, °C",
        ("thermal.core_temperature",),
        keys=(*TIMES, "to"),
        defaults=PART,
        duties=DUTIES,
        least_s=1.25,  # of a card that is not hot yet; 30 % of a quick pattern stage are 1.2 s
    ),
    FaultKind(
        "heat-spike",
        "the core loses its heatsink for a moment, and exceeds the temperature that is never allowed",
        ("thermal.core_temperature",),
        keys=(*TIMES, "to"),
        defaults={**MID, "for": "0.75"},
        duties=DUTIES,
        lacks=unstated("core_temperature_never_c"),
        brief=True,
    ),
    FaultKind(
        "early-heat",
        "the cooling weakens: the core approaches its limit",
        ("thermal.core_temperature",),
        ends="warns",
        keys=(*TIMES, "to"),
        defaults=PART,
        duties=DUTIES,
        lacks=unstated("core_temperature_warn_c"),
        least_s=6.0,  # it is judged by means of 5 s where an absolute limit is stated, too
    ),
    FaultKind(
        "temperature-out-of-range",
        "the core leaves the working range while the card is fed",
        ("thermal.core_temperature",),
        keys=("stage", "to"),
        duties=FED,
        lacks=unstated("working_temperature_c"),
    ),
    FaultKind(
        "memory-overheat",
        "the memory exceeds its limit while the core is cool",
        ("thermal.memory_temperature",),
        keys=(*TIMES, "to"),
        defaults=PART,
        duties=DUTIES,
        lacks=unreported("memory_temperature", "its driver reports no such sensor"),
        least_s=3.0,
    ),
    FaultKind(
        "thermal-throttle",
        "the driver lowers the clock because of heat (reason 0x40)",
        ("thermal.throttle",),
        keys=(*TIMES, "by"),
        defaults={"by": "40%"},
        duties=DEVICE_DUTIES,
    ),
    FaultKind(
        "hidden-throttle",
        "the driver slows the card down too briefly for the samples; to= is how long in all, s",
        ("thermal.throttle",),
        ends="warns",
        keys=(*FROM, "to"),
        defaults=MID,
        duties=DUTIES,
    ),
    FaultKind(
        "power-brake",
        "the power supply triggers the power brake (reason 0x80)",
        ("thermal.throttle",),
        keys=(*TIMES, "by"),
        defaults={"by": "5%", **PART},
        duties=DEVICE_DUTIES,
    ),
)
