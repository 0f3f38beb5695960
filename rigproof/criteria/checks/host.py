"""Does each host sustain the load that feeds its GPUs, and remain responsive?"""

import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np
import numpy.typing as npt

from rigproof.criteria.criterion import (
    Criterion,
    Disturbed,
    Finding,
    Limit,
    NotApplicable,
    NotMeasured,
    pass_or_fail,
)
from rigproof.criteria.evidence.clocks import NONE, TOLD_S, within
from rigproof.criteria.evidence.cpu_use import CpuSecond, cpu_seconds, load_report, taken, users
from rigproof.criteria.evidence.nodes import NodeEvidence
from rigproof.criteria.evidence.series import places_within
from rigproof.criteria.evidence.windows import Window, require_coverage
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.node import CPU, RESPONSIVENESS
from rigproof.records.measurements import Event
from rigproof.records.verdict import Outcome
from rigproof.simulation.faults.kinds import CONTINUOUS, MID, TIMES, FaultKind

BAND_PERCENT = CPU.key(lambda cpu: cpu.band_percent)
IN_BAND_SHARE = CPU.key(lambda cpu: cpu.in_band_share)
FALSE_ALARM_SHARE = CPU.key(lambda cpu: cpu.false_alarm_share)
WARN_PERCENT = CPU.key(lambda cpu: cpu.warn_percent)
WARN_WINDOWS_SHARE = CPU.key(lambda cpu: cpu.warn_windows_share)
STOLEN_WARN_PERCENT = CPU.key(lambda cpu: cpu.stolen_warn_percent)
P99_MS = RESPONSIVENESS.key(lambda delays: delays.p99_ms)
MAX_MS = RESPONSIVENESS.key(lambda delays: delays.max_ms)

Floats = npt.NDArray[np.float64]

SLEEP_S = 0.010  # how long the probe sleeps each time
LOAD_ENDED = "the CPU load has ended"  # in an orderly way: nothing to report
COUNTED_APART = 25.0  # % of the CPU, between what all and what this run's own processes used: more is misread
LOAD_KILLED = "see `sudo dmesg` for whether the kernel ended it for want of memory, and run again"
OWN_WORK = (
    "give the node more CPUs, or raise `cpu.band_percent`: this run's own processes use more than it allows"
)
SHORT_FREEZE = 2.0  # of the longest delay: a single delay of up to this only warns
FEW_FREEZES = 3  # a busy host is late repeatedly
TURN_S = 1.0  # for which a hypervisor leaves a CPU waiting; Linux gives a turn of 0.1 s at most
VIRTUAL = ("passthrough", "vgpu")  # GpuIdentity.virtualization of a GPU in a virtual machine
STOPPED = "the whole virtual machine stood still: no sample was taken and no round ended"
MOVED = "ask the provider whether it is moved, backed up or paused, and run again when it is not"
STALLED = (
    "see `sudo dmesg` for stalls of disk, memory or driver; if there are none, lower `cpu.band_percent` or "
    "end other programs"
)
FEWEST_DELAYS = 100  # a 99th percentile of fewer is its maximum


@Criterion(
    "host.cpu_band",
    title="time in CPU band",
    scope="node",
    unit="%",
    direction="at_least",
    limit="`cpu.in_band_share` of 1 s windows with the CPU inside `cpu.band_percent`; fewer warn, and fail "
    "if a host that keeps the limit would have as few with a chance under `cpu.false_alarm_share`. It also "
    "warns if the mean is over `cpu.warn_percent`, or more than `cpu.warn_windows_share` of the windows are",
    limits=(IN_BAND_SHARE, BAND_PERCENT, FALSE_ALARM_SHARE, WARN_PERCENT, WARN_WINDOWS_SHARE),
    severity="config",
    remedy="end other programs, give the node more CPUs, or adapt `cpu.band_percent`",
    unmeasured="a hypervisor, other programs or a container's quota took the CPU time that is missing, or "
    "somebody ended the CPU load; too few samples of the CPU under load; a CPU outside the band of `rigproof "
    "judge --hwprofile`, if the run's load aimed at a different band; not promised if the profile "
    "switches the load off",
    needs=("continuous",),
)
def cpu_band(node: NodeEvidence) -> Finding:
    """The host's CPU load stays inside its band while the GPUs work; the load of all processes counts."""
    (low, high), _ = node.stated(BAND_PERCENT)
    limit = node.limit(IN_BAND_SHARE).times(100, f", band {low:g}–{high:g} %")
    warn, most = node.limit(WARN_PERCENT), node.optional_limit(WARN_WINDOWS_SHARE)
    seconds = _covered_seconds(node)
    under = [one for one in seconds if one.used < low]
    over = [one for one in seconds if one.used > high]
    mean = fmean(one.used for one in seconds)
    inside = 100 * (1 - (len(under) + len(over)) / len(seconds))
    detail = (
        f"of {len(seconds)} s {len(under)} under {low:g} % and {len(over)} over {high:g} %, mean {mean:.1f} %"
    )
    if inside < limit.value:
        _require_same_aim(node)
        _require_load(node)
        _require_possible(seconds)
        detail += users(node, seconds)
        first = min(one.from_s for one in (*under, *over))
        explained = [one for one in (*under, *over) if one.explained(low, high)]
        if not _significant(len(under) + len(over), len(seconds), node):
            remedy = taken(node, explained)[1] if explained else ""
            return Finding(Outcome.WARN, inside, limit, detail, remedy, from_s=first)
        _require_own(node, seconds, explained)
        remedy = OWN_WORK if len(over) >= len(under) else _remedy_under(load_report(node))
        return pass_or_fail(inside, limit, good=False, detail=detail, remedy=remedy, from_s=first)
    high_share = 100 * sum(1 for one in seconds if one.used > warn.value) / len(seconds)
    if mean > warn.value or (most is not None and high_share > 100 * most.value):
        detail = f"{high_share:.0f} % of seconds over {warn.value:g} %, mean {mean:.1f} %"
        return Finding(Outcome.WARN, inside, limit, detail + users(node, seconds))
    return pass_or_fail(inside, limit, good=True, detail=detail)


def _covered_seconds(node: NodeEvidence) -> list[CpuSecond]:
    """The seconds of the load; NotMeasured if too few have samples."""
    window = node.evidence.complete_window(node.evidence.steady_stage)
    times_s = node.readings("cpu_percent", window).times_s
    require_coverage(times_s, window, node.coverage_limit(), node.evidence.rate_hz, "CPU load")
    seconds, whole = cpu_seconds(node, window), len(window.slices(1.0))
    if len(seconds) < node.coverage_limit().value * whole:
        raise NotMeasured(f"only {len(seconds)} of {whole} windows have samples of the CPU load")
    return seconds


def _require_possible(seconds: Sequence[CpuSecond]) -> None:
    """NotMeasured if less of the CPU was used than by this run alone, or less than nothing."""
    used = fmean(one.used for one in seconds)
    own = fmean(one.own or 0.0 for one in seconds)
    if min(one.used for one in seconds) < 0 or used + COUNTED_APART < own:
        raise NotMeasured(
            f"{used:.0f} % of the CPU is said to be used, and {own:.0f} % by this run alone: it was misread"
        )


def _require_load(node: NodeEvidence) -> None:
    """Disturbed if the CPU load was ended by somebody else."""
    load = load_report(node)
    if load is not None and load.message != LOAD_ENDED:
        raise Disturbed(load.message, LOAD_KILLED, load.t_s)


def _require_own(node: NodeEvidence, seconds: Sequence[CpuSecond], explained: Sequence[CpuSecond]) -> None:
    """Disturbed if the band would not be missed without the seconds that others explain."""
    low, high = node.cpu.band_percent
    out = [one for one in seconds if not low <= one.used <= high]
    mean = fmean(one.used for one in out)
    missed = f"{len(out)} of {len(seconds)} s outside {low:g}–{high:g} %, at {mean:.1f} % on average"
    own = [one for one in out if not one.explained(low, high)]
    known = [one for one in own if one.told]
    if len(known) < len(own) and not _significant(len(known), len(seconds), node):
        raise NotMeasured(f"{missed}; whose CPU time it was is not in this recording" + users(node, seconds))
    if not _significant(len(own), len(seconds), node):
        who, remedy = taken(node, explained)
        raise Disturbed(f"{missed}, while {who}", remedy, min(one.from_s for one in explained))


def _significant(out: int, number: int, node: NodeEvidence) -> bool:
    """Whether so many of the windows are outside the band that it cannot be chance.

    That is so if the upper Clopper–Pearson bound of the share inside (Biometrika 26, 1934; one-sided, at
    1 − `false_alarm_share`) is under `in_band_share`. If each window of a host is outside with that chance
    at most, and independently of the others, a false alarm is no likelier than `false_alarm_share`, however
    few windows there are. At 0.8 and 1 %, 7 of 11 windows must be outside, 15 of 40, 21 of 60. Of a sound
    host 1 % are (bench/cpu_band.py). Windows beside each other are alike, so that a hog of seven seconds is
    enough; but that explains them. Without the key, one too many is enough.
    """
    outside, false_alarm = 1 - node.limit(IN_BAND_SHARE).value, node.optional_limit(FALSE_ALARM_SHARE)
    if false_alarm is None or outside <= 0:
        return out > outside * number
    return chance_of(out, number, outside) < false_alarm.value


def chance_of(least: int, number: int, share: float) -> float:
    """The chance of at least so many hits in `number` independent tries that each hit with chance `share`."""

    def exactly(hits: int) -> float:
        ways = math.lgamma(number + 1) - math.lgamma(hits + 1) - math.lgamma(number - hits + 1)
        return math.exp(ways + hits * math.log(share) + (number - hits) * math.log1p(-share))

    return math.fsum(exactly(hits) for hits in range(least, number + 1))


def _require_same_aim(node: NodeEvidence) -> None:
    """NotMeasured if the run's CPU load aimed at another band than the one judged by."""
    run, judged = node.evidence.planned_by.cpu_of(node.subject), node.cpu
    if not run.enabled or run.band_percent != judged.band_percent:
        low, high = run.band_percent
        aim = f"aimed at {low:g}–{high:g} %" if run.enabled else "was off"
        raise NotMeasured(f"the CPU load of this run {aim}; run again with {node.evidence.loaded.file}")


def _remedy_under(load: Event | None) -> str:
    short_cpus = 0.0 if load is None else load.data["short_cpus"]
    if short_cpus >= 0.05:
        return f"raise `cpu.secondary_thread_share`: the load's threads were {short_cpus:.1f} CPUs too few"
    return "correct `cpus` in the profile: nobody else used the CPU, and it was not throttled"


@Criterion(
    "host.steal",
    title="CPU time stolen",
    scope="node",
    unit="%",
    direction="at_most",
    limit="`cpu.stolen_warn_percent` of the host's CPU time, on average under load; more warns",
    limits=(STOLEN_WARN_PERCENT,),
    severity="config",
    remedy="ask the provider for dedicated CPUs: what feeds the GPUs waits as long as that",
    unmeasured="what a hypervisor takes was read for too little of the time under load; not applicable to a "
    "run that did not read it",
    surroundings=True,
    needs=("continuous",),
)
def steal(node: NodeEvidence) -> Finding:
    """A hypervisor takes little CPU time from the host while its GPUs work."""
    limit = node.optional_limit(STOLEN_WARN_PERCENT)
    window = node.evidence.loaded_window(node.evidence.steady_stage)
    stolen = node.readings("stolen_percent", window)
    if limit is None or (len(node.sampled_s(window)) and not len(stolen)):
        raise NotApplicable("this run did not read how much CPU time a hypervisor takes")
    require_coverage(stolen.times_s, window, node.coverage_limit(), node.evidence.rate_hz, "stolen CPU time")
    mean = float(stolen.values.mean())
    detail = f"up to {stolen.values.max():.0f} % in one sample"
    throttled, pressure = (
        node.readings(name, window).values for name in ("throttled_percent", "pressure_percent")
    )
    if throttled.any():
        detail += f", a CPU quota withheld {throttled.mean():.0f} %"
    if len(pressure):
        detail += f", programs waited for a CPU {pressure.mean():.0f} % of the time"
    return Finding(Outcome.WARN if mean > limit.value else Outcome.PASS, mean, limit, detail)


@Criterion(
    "host.responsiveness",
    title="wake-up delay",
    key_figure=True,
    scope="node",
    unit="ms",
    direction="at_most",
    limit="`responsiveness.p99_ms` and `responsiveness.max_ms`; a single delay of up to twice the latter "
    "warns",
    limits=(P99_MS, MAX_MS),
    severity="config",
    remedy="lower the CPU load in the profile (`cpu.band_percent`)",
    unmeasured="a hypervisor, other programs or a container's quota took the CPU when wake-ups were late, or "
    "a virtual machine stood still as a whole; "
    "the probe reported for too little of the time under load",
    needs=("continuous",),
)
def responsiveness(node: NodeEvidence) -> Finding:
    """A process that sleeps 10 ms at a time wakes up in time: 99th percentile and maximum of its delay."""
    p99, longest = node.limit(P99_MS), node.limit(MAX_MS)
    window = node.evidence.loaded_window(node.evidence.steady_stage)
    delays, reported_s = _delays(node, window)
    if not np.isfinite(delays).all():
        raise NotMeasured("a wake-up delay is not a finite number")
    worst_ms = float(delays.max(initial=-math.inf))
    over = int(np.count_nonzero(delays > longest.value))
    short = over == 1 and worst_ms <= SHORT_FREEZE * longest.value
    worst_at_s = float(reported_s[delays.argmax()]) if len(delays) else None
    if over and not short:
        _require_own_delays(node, window, delays, reported_s, (p99.value, longest.value))
        detail = "longest wake-up delay" if over == 1 else f"longest of {over} wake-up delays over the limit"
        remedy = STALLED if over <= FEW_FREEZES else ""
        return pass_or_fail(worst_ms, longest, good=False, detail=detail, remedy=remedy, from_s=worst_at_s)
    _require_probe(node, window, delays)
    ninety_ninth = _ninety_ninth(delays)
    detail = f"99th percentile of {len(delays)} wake-up delays, longest {worst_ms:.1f} ms"
    if ninety_ninth > p99.value:
        _require_own_delays(node, window, delays, reported_s, (p99.value, longest.value))
    if short and ninety_ninth <= p99.value:
        detail = f"one of {len(delays)} wake-up delays"
        return Finding(Outcome.WARN, worst_ms, longest, detail, STALLED, from_s=worst_at_s)
    return pass_or_fail(ninety_ninth, p99, good=ninety_ninth <= p99.value, detail=detail)


def _ninety_ninth(delays: Floats) -> float:
    rank = math.ceil(0.99 * len(delays)) - 1
    return float(np.partition(delays, rank)[rank])  # faster than to sort them


def _delays(node: NodeEvidence, window: Window) -> tuple[Floats, Floats]:
    """All delays in the window, ms, and when each was reported, (n,)."""
    samples = node.samples
    reports = [
        (t_s, delays)
        for t_s, delays in samples.fields("t_s", "wakeup_delays_ms", where=places_within(samples, window))
        if delays is not None and len(delays)
    ]
    if not reports:
        return np.empty(0), np.empty(0)
    every = np.concatenate([delays for _, delays in reports], dtype=np.float64)
    return every, np.repeat([t_s for t_s, _ in reports], [len(delays) for _, delays in reports])


def _require_own_delays(
    node: NodeEvidence, window: Window, delays: Floats, reported_s: Floats, limits_ms: tuple[float, float]
) -> None:
    """Disturbed if the host would be responsive without the late wake-ups that others explain.

    One is explained if in its second, or while it waited, a hypervisor or a quota took at least as much CPU
    time as it waited, or other programs had brought the CPU over its band: in a second around it, whenever
    that begins. A hypervisor lets one CPU wait
    for TURN_S at most while it serves the others: of a longer delay, it must have taken more of all CPUs than
    `cpu.stolen_warn_percent`, since on a host of 128 CPUs 1 % is always more than a second each second. Or it
    is a virtual machine, and all of it stood still: its hypervisor stopped it, which it need not call stolen.
    """
    p99_ms, longest_ms = limits_ms
    late = np.flatnonzero(delays > min(limits_ms))
    waited_s, seconds, high = delays[late] / 1000, cpu_seconds(node, window), node.cpu.band_percent[1]
    from_s, to_s = reported_s[late] - waited_s - 1.0, reported_s[late] + 0.5 / node.evidence.rate_hz
    times_s, withheld_s = _withheld(node, window)
    taken_s = np.interp(to_s, times_s, withheld_s) - np.interp(from_s, times_s, withheld_s)
    most = (node.cpu.stolen_warn_percent or 0.0) / 100 * node.identity.cpus
    enough = (taken_s >= waited_s) & ((waited_s <= TURN_S) | (taken_s > most * (to_s - from_s)))
    hogs_s = np.asarray([one.from_s for one in _any_seconds(node, window) if one.hogged(high)])
    stopped = _stopped(node, reported_s[late], waited_s)
    explained = late[enough | stopped | (hogs_s.searchsorted(to_s) > hogs_s.searchsorted(from_s))]
    rest = np.delete(delays, explained)
    if not len(explained) or (len(rest) and (rest.max() > longest_ms or _ninety_ninth(rest) > p99_ms)):
        return
    at_s = reported_s[explained]
    those = [one for one in seconds if ((at_s >= one.from_s - 1) & (at_s <= one.from_s + 2)).any()]
    who, remedy = (STOPPED, MOVED) if stopped.any() else taken(node, those or seconds)
    raise Disturbed(
        f"{len(late)} of {len(delays)} wake-ups were late, by up to {delays.max():.0f} ms, while {who}",
        remedy,
        float(at_s[0]),
    )


def _stopped(node: NodeEvidence, reported_s: Floats, waited_s: Floats) -> npt.NDArray[np.bool_]:
    """The wake-ups (n,) that waited mostly while all of a virtual machine stood still.

    NVML says whether it is one. A machine of one's own that freezes does so by itself.
    """
    virtual = any(one.found and one.identity.virtualization in VIRTUAL for one in node.devices)
    still = node.evidence.standstills(node.subject) if virtual else NONE
    found = np.zeros(len(waited_s), np.bool_)
    for place, (to_s, for_s) in enumerate(zip(reported_s, waited_s, strict=True) if len(still) else ()):
        found[place] = within(still, to_s - TOLD_S - for_s, to_s) >= for_s / 2
    return found


def _any_seconds(node: NodeEvidence, window: Window) -> list[CpuSecond]:
    """The seconds that begin at any quarter of one, by their begin, from a second before the window on."""
    begins_s = [window.from_s - 1.0 + quarter / 4 for quarter in range(4)]
    found = [one for from_s in begins_s for one in cpu_seconds(node, Window(from_s, window.to_s))]
    return sorted(found, key=lambda one: one.from_s)


def _withheld(node: NodeEvidence, window: Window) -> tuple[Floats, Floats]:
    """Times of samples, and the CPU seconds that a hypervisor and quotas had withheld by then, (n,)."""
    samples, where = node.samples, places_within(node.samples, window)
    times_s, stolen, throttled = (
        samples.column(name)[where] for name in ("t_s", "stolen_percent", "throttled_percent")
    )
    percent = np.where(np.isnan(stolen), 0.0, stolen) + np.where(np.isnan(throttled), 0.0, throttled)
    lengths_s = np.diff(times_s, prepend=times_s[0])
    return times_s, np.cumsum(node.identity.cpus * percent / 100 * lengths_s)


def _require_probe(node: NodeEvidence, window: Window, delays: Floats) -> None:
    """A probe that died early did not measure the rest: its sleeps must account for the loaded time."""
    accounted_s = len(delays) * SLEEP_S + float(delays.sum()) / 1000
    least: Limit = node.coverage_limit()
    if len(delays) < FEWEST_DELAYS or accounted_s < least.value * window.length_s:
        raise NotMeasured(
            f"the probe reported {len(delays)} wake-ups, {accounted_s:.0f} s of {window.length_s:.0f} s"
        )


def _no_band(loaded: LoadedRig, node: str) -> str:
    return "" if loaded.cpu_of(node).enabled else "cpu.enabled = false"


FAULTS = (
    FaultKind(
        "cpu-saturated",
        "another program takes the whole CPU, and wake-ups come late",
        ("host.cpu_band", "host.responsiveness"),
        scope="node",
        ends="not measured",
        keys=TIMES,
        duties=CONTINUOUS,
        host_lacks=_no_band,
    ),
    FaultKind(
        "cpu-starved",
        "the CPU stays below its band though nobody else uses it: the profile states too few CPUs",
        ("host.cpu_band",),
        scope="node",
        keys=(*TIMES, "to"),
        duties=CONTINUOUS,
        host_lacks=_no_band,
    ),
    FaultKind(
        "cpu-stolen",
        "a hypervisor takes a share of the host's CPU time while it is under load",
        ("host.steal",),
        scope="node",
        ends="warns",
        keys=(*TIMES, "by"),
        defaults={"by": "20%"},
        duties=CONTINUOUS,
    ),
    FaultKind(
        "host-frozen",
        "the host freezes for a while",
        ("host.responsiveness",),
        scope="node",
        keys=TIMES,
        defaults={**MID, "for": "5"},
        duties=CONTINUOUS,
        brief=True,
    ),
)
