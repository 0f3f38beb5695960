"""Does each host sustain the load that feeds its GPUs, and remain responsive?"""

import math
from statistics import fmean

import numpy as np
import numpy.typing as npt

from rigproof.criteria.criterion import Finding, Limit, NotMeasured, compared, criterion
from rigproof.criteria.effects import Also
from rigproof.criteria.evidence.coverage import require_coverage
from rigproof.criteria.evidence.nodes import NodeEvidence
from rigproof.criteria.evidence.windows import Window, values_by_slice
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.records.measurements import Event
from rigproof.records.verdict import Outcome
from rigproof.simulation.faults.kinds import CONTINUOUS, MID, TIMES, FaultKind, Late, Variant

Floats = npt.NDArray[np.float64]

WINDOW_S = 1.0
SLEEP_S = 0.010  # how long the probe sleeps each time
REPORTED = ("own_percent", "foreign_percent", "short_cpus")
LOAD_ENDED = "the CPU load has ended"  # in an orderly way: nothing to report
SHORT_FREEZE = 2.0  # of the longest delay: a single delay of up to this only warns
FEW_FREEZES = 3  # a busy host is late repeatedly
STALLED = (
    "see `dmesg` for stalls of disk, memory or driver; if there are none, lower `cpu.band_percent` or end "
    "other programs"
)
FEWEST_DELAYS = 100  # a 99th percentile of fewer is its maximum


@criterion(
    "host.cpu_band",
    title="time in CPU band",
    scope="node",
    unit="%",
    direction="at_least",
    limit="`cpu.in_band_share` of 1 s windows with the CPU inside `cpu.band_percent`. It warns if the "
    "mean is over `cpu.warn_percent`, or more than `cpu.warn_windows_share` of the windows are over it",
    severity="config",
    remedy="end other programs on this machine, or adapt `cpu.band_percent` or the node's `cpus`",
    unmeasured="too few samples of the CPU under load; a CPU outside the band of `rigproof judge "
    "--hwprofile`, if the run's load aimed at a different band; not promised if the profile "
    "switches the load off",
    also=Also(unmeasured=("node-lost", "reset", "host-frozen")),
    needs=("continuous",),
)
def cpu_band(node: NodeEvidence) -> Finding:
    """The host's CPU load stays inside its band while the GPUs work; the load of all processes counts."""
    cpu = node.cpu
    low, high = cpu.band_percent
    limit = node.limit("cpu", "in_band_share", cpu.in_band_share).times(100, f", band {low:g}–{high:g} %")
    warn = node.limit("cpu", "warn_percent", cpu.warn_percent)
    windows, means = _means(node)
    under = sum(1 for mean in means if mean < low)
    over = sum(1 for mean in means if mean > high)
    inside = 100 * (1 - (under + over) / len(means))
    detail = (
        f"of {len(means)} s {under} under {low:g} % and {over} over {high:g} %, mean {fmean(means):.1f} %"
    )
    load = _load_report(node)
    if inside < limit.value:
        _require_same_aim(node)
        first = next(w for w, mean in zip(windows, means, strict=True) if not low <= mean <= high)
        remedy = "" if over >= under else _remedy_under(load)
        detail += _shares(load)
        return compared(inside, limit, good=False, detail=detail, remedy=remedy, from_s=first.from_s)
    high_share = 100 * sum(1 for mean in means if mean > warn.value) / len(means)
    most = cpu.warn_windows_share
    if fmean(means) > warn.value or (most is not None and high_share > 100 * most):
        detail = f"{high_share:.0f} % of seconds over {warn.value:g} %, mean {fmean(means):.1f} %"
        return Finding(Outcome.WARN, inside, limit, detail + _shares(load))
    return compared(inside, limit, good=True, detail=detail)


def _require_same_aim(node: NodeEvidence) -> None:
    """NotMeasured if the run's CPU load aimed at another band than the one judged by."""
    run, judged = node.evidence.planned_by.cpu_of(node.subject), node.cpu
    if not run.enabled or run.band_percent != judged.band_percent:
        low, high = run.band_percent
        aim = f"aimed at {low:g}–{high:g} %" if run.enabled else "was off"
        raise NotMeasured(f"the CPU load of this run {aim}; run again with {node.evidence.loaded.file}")


def _load_report(node: NodeEvidence) -> Event | None:
    """The CPU load's report at its end about itself and all other processes; None without one."""
    reports = [
        event
        for event in node.evidence.events.of(node.subject, "host_load")
        if all(isinstance(event.data.get(name), int | float) for name in REPORTED)
    ]
    return reports[-1] if reports else None


def _shares(load: Event | None) -> str:
    """Who used the CPU."""
    if load is None:
        return ""
    own, foreign = load.data["own_percent"], load.data["foreign_percent"]
    early = f"; {load.message}" if load.message != LOAD_ENDED else ""
    return f"{early}; rigproof's load used {own:.0f} %, all other processes {foreign:.0f} %"


def _remedy_under(load: Event | None) -> str:
    short_cpus = 0.0 if load is None else load.data["short_cpus"]
    if short_cpus >= 0.05:
        return f"raise `cpu.secondary_thread_share`: the load's threads were {short_cpus:.1f} CPUs too few"
    return "give the node more CPUs or lift its CPU quota, or correct `cpus` in the profile"


def _means(node: NodeEvidence) -> tuple[list[Window], list[float]]:
    """Mean CPU load of each 1 s window that has samples; NotMeasured if too few have."""
    window = node.evidence.complete_window(node.evidence.steady_stage)
    pairs = node.loaded_samples(window).readings("cpu_percent")
    require_coverage(pairs.times_s, window, node.coverage_limit(), node.evidence.rate_hz, "CPU load")
    slices = window.slices(WINDOW_S)
    filled = [
        (piece, sum(those) / len(those))
        for piece, those in zip(slices, values_by_slice(pairs, slices), strict=True)
        if those
    ]
    if len(filled) < node.coverage_limit().value * len(slices):
        raise NotMeasured(f"only {len(filled)} of {len(slices)} windows have samples of the CPU load")
    return [piece for piece, _ in filled], [mean for _, mean in filled]


@criterion(
    "host.responsiveness",
    title="wake-up delay",
    key_figure=True,
    scope="node",
    unit="ms",
    direction="at_most",
    limit="`responsiveness.p99_ms` and `responsiveness.max_ms`; a single delay of up to twice the latter "
    "warns",
    severity="config",
    remedy="lower the CPU load in the profile (`cpu.band_percent`), or end other programs on this machine",
    unmeasured="the probe reported for too little of the time under load",
    also=Also(warns=("host-frozen:for=0.5",), unmeasured=("node-lost", "reset")),
    needs=("continuous",),
)
def responsiveness(node: NodeEvidence) -> Finding:
    """A process that sleeps 10 ms at a time wakes up in time: 99th percentile and maximum of its delay."""
    rig = node.evidence.loaded.rig
    p99 = node.limit("responsiveness", "p99_ms", rig.responsiveness.p99_ms)
    longest = node.limit("responsiveness", "max_ms", rig.responsiveness.max_ms)
    window = node.evidence.loaded_window(node.evidence.steady_stage)
    delays, worst_at_s = _delays(node, window)
    if not np.isfinite(delays).all():
        raise NotMeasured("a wake-up delay is not a finite number")
    worst_ms = float(delays.max(initial=-math.inf))
    over = int(np.count_nonzero(delays > longest.value))
    short = over == 1 and worst_ms <= SHORT_FREEZE * longest.value
    if over and not short:
        detail = "longest wake-up delay" if over == 1 else f"longest of {over} wake-up delays over the limit"
        remedy = STALLED if over <= FEW_FREEZES else ""
        return compared(worst_ms, longest, good=False, detail=detail, remedy=remedy, from_s=worst_at_s)
    _require_probe(node, window, delays)
    rank = math.ceil(0.99 * len(delays)) - 1
    ninety_ninth = float(np.partition(delays, rank)[rank])  # faster than to sort them
    detail = f"99th percentile of {len(delays)} wake-up delays, longest {worst_ms:.1f} ms"
    if short and ninety_ninth <= p99.value:
        detail = f"one of {len(delays)} wake-up delays"
        return Finding(Outcome.WARN, worst_ms, longest, detail, STALLED, from_s=worst_at_s)
    return compared(ninety_ninth, p99, good=ninety_ninth <= p99.value, detail=detail)


def _delays(node: NodeEvidence, window: Window) -> tuple[Floats, float | None]:
    """All delays in the window, ms, and when the longest was reported."""
    reports = [
        (t_s, delays)
        for t_s, delays in node.loaded_samples(window).fields("t_s", "wakeup_delays_ms")
        if delays is not None and len(delays)
    ]
    if not reports:
        return np.empty(0), None
    every = np.concatenate([delays for _, delays in reports], dtype=np.float64)
    reported = np.cumsum([len(delays) for _, delays in reports])
    worst_at_s, _ = reports[int(reported.searchsorted(every.argmax(), "right"))]
    return every, worst_at_s


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
        "node",
        "another program takes the whole CPU, and wake-ups come late",
        ("host.cpu_band", "host.responsiveness"),
        keys=TIMES,
        duties=CONTINUOUS,
        host_lacks=_no_band,
    ),
    FaultKind(
        "cpu-starved",
        "node",
        "a quota keeps the CPU load below its band",
        ("host.cpu_band",),
        keys=(*TIMES, "to"),
        duties=CONTINUOUS,
        host_lacks=_no_band,
        late=Late("`cpu.in_band_share` allows a fifth of the windows outside the band", keys="after=75%"),
    ),
    FaultKind(
        "host-frozen",
        "node",
        "the host freezes for a while",
        ("host.responsiveness",),
        keys=TIMES,
        defaults={**MID, "for": "5"},
        duties=CONTINUOUS,
        brief=True,
        why="During that time the sensors of its cards are not read either.",
        variants=(Variant("for=0.5", "A single short freeze warns."),),
    ),
)
