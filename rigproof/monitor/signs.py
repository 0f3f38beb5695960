"""Warning signs: everything in a snapshot that needs attention. Pure; the limits are in the snapshot."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from rigproof.criteria.evidence.counters import THROTTLE, names_of
from rigproof.monitor.gathering import RECENT_S, STALE_S
from rigproof.monitor.snapshot import GpuNow, NodeNow, RunNow, Snapshot
from rigproof.records.verdict import Direction, count_of, figure, figure_and_limit, limit_text

# Signs of values over their limit.
UNITS = {
    "cpu": "%",
    "unresponsive": "ms",
    "silent": "s",
    "core_temperature": "°C",
    "core_temperature_early": "°C",
    "memory_temperature": "°C",
}


@dataclass(frozen=True, slots=True)
class WarningSign:
    """One sign: `text` is a sentence with what was measured and its limit, which are in `unit`.

    `direction`: how a figure would meet that limit; None without a limit.
    """

    kind: str
    subject: str
    text: str
    measured: float | None = None
    limit: float | None = None
    direction: Direction | None = None
    unit: str = ""


def warning_signs(snapshot: Snapshot) -> list[WarningSign]:
    """Every warning sign, those of the run first."""
    found: list[WarningSign] = []
    if snapshot.run is not None:
        found += _of_run(snapshot.run)
        found += _distribution(snapshot)
    if snapshot.run is None or snapshot.run.simulated:
        found += _idle_beside(snapshot)
    for node in snapshot.nodes:
        found += _of_node(node)
        for gpu in node.gpus:
            if node.presence != "missing":  # the missing node has a sign of its own
                found += _of_gpu(gpu)
    found += (WarningSign("error", "rig", message) for message in snapshot.errors)
    return found


def _of_run(run: RunNow) -> Iterator[WarningSign]:
    limit = run.ooms_limit
    if run.timeouts:
        text = f"{count_of(len(run.timeouts), 'timeouts')} in the run, limit 0: {run.timeouts[-1]}"
        yield WarningSign("timed_out", "rig", text, len(run.timeouts), 0, "at_most")
    if run.losses:
        text = f"{count_of(len(run.losses), 'processes')} lost in the run, limit 0: {run.losses[-1]}"
        yield WarningSign("lost", "rig", text, len(run.losses), 0, "at_most")
    if limit is not None and run.ooms > limit:
        text = f"{count_of(run.ooms, 'failed allocations')} (out of memory) in the run, {_at_most(limit)}"
        yield WarningSign("oom", "rig", text, run.ooms, limit, "at_most")


def _distribution(snapshot: Snapshot) -> Iterator[WarningSign]:
    """Some GPUs of the run work and others do not, although the stage has run for a while."""
    run = snapshot.run
    if run is None or run.simulated or run.stage is None or run.stage.elapsed_s < STALE_S:
        return
    active, idle = [], []
    for gpu in snapshot.gpus:
        device = snapshot.in_run(gpu)
        if device is None:
            continue
        if _active(gpu):
            active.append(gpu.subject)
        elif _active(gpu) is False and (device.round_age_s is None or device.round_age_s > STALE_S):
            idle.append(gpu)
    for gpu in idle if active else ():
        others = f"{', '.join(active)} {'works' if len(active) == 1 else 'work'}"
        text = f"idle ({_draw(gpu)}) while {others} in stage {run.stage.name}: distribution failure"
        limit_w = _active_power_w(gpu)
        direction: Direction | None = None if limit_w is None else "at_least"
        yield WarningSign("idle", gpu.subject, text, gpu.sample.power_average_w, limit_w, direction, "W")


def _idle_beside(snapshot: Snapshot) -> Iterator[WarningSign]:
    """Some GPUs work, and others idle, for a while already: for somebody else than a run."""
    for gpu in snapshot.gpus:
        least_s = gpu.limits.idle_beside_s
        if least_s is None or gpu.idle_s is None or gpu.idle_s <= least_s:
            continue
        working = {one.subject: one.work_s or 0.0 for one in snapshot.gpus}
        working = {subject: work_s for subject, work_s in working.items() if work_s > least_s}
        if not working:
            continue
        length_s = min(gpu.idle_s, *working.values())
        since = datetime.fromisoformat(snapshot.at) - timedelta(seconds=length_s)
        others = f"{', '.join(working)} {'works' if len(working) == 1 else 'work'}"
        text = f"idle while {others}, since {since:%H:%M:%S}Z ({_draw(gpu)})"
        yield WarningSign("idle", gpu.subject, text, length_s, least_s, "at_most", "s")


def _active(gpu: GpuNow) -> bool | None:
    """Whether it works: by its power draw if known, else by its utilisation; None: not known."""
    limit_w = _active_power_w(gpu)
    if gpu.sample.power_average_w is not None and limit_w is not None:
        return gpu.sample.power_average_w >= limit_w
    return None if gpu.sample.utilization_percent is None else gpu.sample.utilization_percent > 0


def _active_power_w(gpu: GpuNow) -> float | None:
    limit_w, share = gpu.power_limit_w, gpu.limits.active_power_share
    return None if limit_w is None or share is None else limit_w * share


def _draw(gpu: GpuNow) -> str:
    limit_w = _active_power_w(gpu)
    if gpu.sample.power_average_w is None or limit_w is None:
        return f"utilisation {figure(gpu.sample.utilization_percent or 0.0)} %"
    return f"draws {figure(gpu.sample.power_average_w)} W, an active one {figure(limit_w)} W and more"


def _of_node(node: NodeNow) -> Iterator[WarningSign]:
    if node.presence == "missing":
        yield WarningSign("missing", node.name, node.reason or "missing")
        return
    yield from _if_over("silent", node.name, "no reading for", node.reading_age_s, STALE_S)
    yield from _if_over("cpu", node.name, "CPU at", node.sample.cpu_percent, node.cpu.warn_percent)
    worst, p99, limits = node.wakeup_max_ms, node.wakeup_p99_ms, node.responsiveness
    if worst is not None and worst > limits.max_ms:
        what = "unresponsive: wake-up delay of"
        yield from _if_over("unresponsive", node.name, what, worst, limits.max_ms)
    else:
        what = "unresponsive: 99th percentile of wake-up delays"
        yield from _if_over("unresponsive", node.name, what, p99, limits.p99_ms)
    for message in node.errors:
        yield WarningSign("error", node.name, message)


def _of_gpu(gpu: GpuNow) -> Iterator[WarningSign]:
    name, limits = gpu.subject, gpu.limits
    if gpu.presence == "missing":
        yield WarningSign("missing", name, gpu.reason or "missing")
    share, least = gpu.coverage_share, limits.sample_coverage_share
    if share is not None and least is not None and share < least:
        figures = ", ".join(figure_and_limit(100 * share, 100 * least, "%", "at_least"))
        text = f"the driver answers slowly, readings in time: {figures}"
        yield WarningSign("driver_slow", name, text, 100 * share, 100 * least, "at_least", "%")
    yield from _heat(gpu)
    slowed = (gpu.sample.clock_event_reasons or 0) & THROTTLE
    if slowed:
        text = f"slowed down in the last {RECENT_S:g} s: {names_of(slowed)}; any slowdown warns"
        yield WarningSign("throttled", name, text, slowed.bit_count(), 0, "at_most")
    if gpu.sample.memory_used_mib is not None and gpu.memory_total_mib and gpu.headroom_mib is not None:
        free_mib = gpu.memory_total_mib - gpu.sample.memory_used_mib
        if free_mib < gpu.headroom_mib:
            figures = ", ".join(figure_and_limit(free_mib, gpu.headroom_mib, "MiB", "at_least"))
            text = f"VRAM free: {figures}"
            yield WarningSign("headroom", name, text, free_mib, gpu.headroom_mib, "at_least", "MiB")
    if gpu.xids:
        numbers = ", ".join(str(xid) for xid in dict.fromkeys(gpu.xids))
        text = f"{count_of(len(gpu.xids), 'Xids')} since the monitor started ({numbers}), limit 0"
        yield WarningSign("xid", name, text, len(gpu.xids), 0, "at_most")
    new, allowed = gpu.counters.ecc_uncorrected, limits.ecc_uncorrected
    if new is not None and allowed is not None and new > allowed:
        text = f"{count_of(new, 'uncorrected memory errors')} since the monitor started, {_at_most(allowed)}"
        yield WarningSign("ecc", name, text, new, allowed, "at_most")
    for message in gpu.errors:
        yield WarningSign("error", name, message)


def _heat(gpu: GpuNow) -> Iterator[WarningSign]:
    """Only the highest of the core's limits that is exceeded is reported."""
    limits, core_c = gpu.limits, gpu.sample.core_temperature_c
    kinds = (
        ("core_temperature", "core, which must never exceed the limit, at", limits.core_temperature_never_c),
        ("core_temperature", "core at", limits.core_temperature_c),
        ("core_temperature_early", "early warning: core at", limits.core_temperature_warn_c),
    )
    over = [one for one in kinds if core_c is not None and one[2] is not None and core_c > one[2]]
    for kind, what, limit_c in over[:1]:
        yield from _if_over(kind, gpu.subject, what, core_c, limit_c)
    hot_c, memory_limit_c = gpu.sample.memory_temperature_c, limits.memory_temperature_c
    yield from _if_over("memory_temperature", gpu.subject, "memory at", hot_c, memory_limit_c)


def _if_over(
    kind: str, subject: str, what: str, measured: float | None, limit: float | None
) -> Iterator[WarningSign]:
    if measured is not None and limit is not None and measured > limit:
        unit = UNITS[kind]
        text = f"{what} {', '.join(figure_and_limit(measured, limit, unit, 'at_most'))}"
        yield WarningSign(kind, subject, text, measured, limit, "at_most", unit)


def _at_most(limit: int) -> str:
    return f"limit {limit_text(limit, '', 'at_most')}"
