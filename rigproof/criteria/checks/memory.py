"""Is there enough memory for the work, and did the work end well?"""

import math
from operator import attrgetter

from rigproof.criteria.criterion import Criterion, Disturbed, Finding, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.devices import LOSSES, DeviceEvidence
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.run_plan import require_judged_plan
from rigproof.criteria.evidence.series import Readings
from rigproof.criteria.evidence.strangers import holders_at
from rigproof.criteria.evidence.tasks import rounds_by_device, shortage, tasks_of, way_out
from rigproof.criteria.evidence.want_of_memory import crowded_by
from rigproof.criteria.evidence.windows import Window
from rigproof.profiles.planning.operands import IDLE_MIB, ITEM_BYTES, matrix_mib
from rigproof.profiles.planning.planning import MIB_PER_GIB
from rigproof.profiles.tables.limits import LIMITS
from rigproof.records.grouping import grouped
from rigproof.records.verdict import Outcome, count_of, figure_and_limit
from rigproof.simulation.faults.kinds import CONTINUOUS, FROM, MID, FaultKind

OOMS = LIMITS.key(lambda limits: limits.ooms)
SUCCESS_SHARE = LIMITS.key(lambda limits: limits.success_share)
HEADROOM_GIB = LIMITS.key(lambda limits: limits.headroom_gib)

# Workers read their allocator once a second, between two rounds; the last reading must be from the end.
LAST_READING_S = 5.0
COUNTS = ("ooms", "alloc_retries")  # that an allocator keeps
ROUNDING_MIB = 1.0
OVERFLOW_BEFORE_S = 0.05  # a worker reports an overflow just before its round
OTHER_PLAN = "or the run was planned with other work than the profile of `rigproof judge --hwprofile` plans"
FREE_SOME = "end other programs that hold its memory, or lower `vram_share` or `vram_gib_per_worker`"
END_HOLDER = "end that process, or lower `vram_share` in the rig profile"
REPORT_DELAY_S = 1.0  # a wrong result of a process that shares the device is reported by its worker, later


@Criterion(
    "memory.no_oom",
    title="out of memory",
    unit="OOMs",
    direction="at_most",
    limit="`limits.ooms`",
    limits=(OOMS,),
    severity="config",
    remedy="lower `vram_share` or the number of workers in the rig profile, or free the card's memory",
    unmeasured="a planned worker did not report its allocator up to the end of the load, was lost, or has an "
    "allocator without counters (of a CUDA device); or it filled less memory than the plan gives it, and "
    f"no failed allocation explains it; {OTHER_PLAN}",
    needs=("continuous",),
    caused_by_others=crowded_by,
)
def no_oom(device: DeviceEvidence) -> Finding:
    """No allocation failed (out of memory); one that succeeded only after a retry warns.

    A failure that the policy of `[memory]` recovered from counts like any other.
    """
    require_judged_plan(device)
    allowed = device.limit(OOMS)
    events = device.events("oom")
    counted = _sum_of_highest(device, "ooms")
    ooms = max(len(events), counted)
    if ooms > allowed.value:
        if not events:
            return pass_or_fail(
                ooms, allowed, good=False, detail="the allocator counted them, and a retry hid them"
            )
        first = events[0]
        holders = "" if "holders" in first.data else holders_at(device, first.t_s)
        detail = "; ".join(filter(None, (shortage(first.message), holders)))
        remedy = END_HOLDER if holders or "holders" in first.data else way_out(first.message)
        return pass_or_fail(ooms, allowed, good=False, detail=detail, remedy=remedy, from_s=first.t_s)
    device.require_placed("oom")
    window = device.evidence.complete_window(device.evidence.steady_stage)
    _require_last_readings(device, window)
    if not events:
        _require_filled(device)
    retries = _sum_of_highest(device, "alloc_retries")
    if retries > 0:
        detail = f"{count_of(retries, 'allocations')} succeeded only after the cache was emptied"
        return Finding(Outcome.WARN, ooms, allowed, detail)
    return pass_or_fail(ooms, allowed, good=True)


def _require_last_readings(device: DeviceEvidence, window: Window) -> None:
    """NotMeasured if the counts of a planned worker are not known up to the end of the load."""
    memory, steady = device.memory, device.evidence.steady_stage
    read_by = memory.fields("stage", "worker")
    for worker in device.planned_workers:
        lost = [one for one in device.events(*LOSSES) if one.worker == worker and one.stage == steady]
        if lost:
            raise NotMeasured(f"{worker} was lost at t={lost[0].t_s:.0f} s: {lost[0].message}")
        own = [place for place, by in enumerate(read_by) if by == (steady, worker)]
        if not own:
            raise NotMeasured(f"{worker} never reported its memory", device.cause())
        last_s = float(memory.column("t_s")[own[-1]])
        if last_s < window.to_s - LAST_READING_S:
            why = f"{worker} last reported its memory at t={last_s:.0f} s"
            raise NotMeasured(f"{why}; the load ended at t={window.to_s:.0f} s")
        if not device.is_cpu and any(math.isnan(memory.column(name)[own[-1]]) for name in COUNTS):
            raise NotMeasured(
                f"the allocator of {worker} counts no failures; unset the backend that PYTORCH_ALLOC_CONF or "
                "PYTORCH_CUDA_ALLOC_CONF names there"
            )


def _require_filled(device: DeviceEvidence) -> None:
    """NotMeasured if a worker holds so much less than planned that one more matrix would have fitted."""
    for worker in device.evidence.plan.workers_of(device.subject):
        reports = [
            event
            for event in device.events("allocation")
            if event.worker == worker.worker and event.stage == device.evidence.steady_stage
        ]
        if not reports:
            raise NotMeasured(f"{worker.worker} did not report that its memory was filled")
        allocated_mib, precision = (reports[-1].data.get(name) for name in ("allocated_mib", "precision"))
        if not isinstance(allocated_mib, int | float) or precision not in ITEM_BYTES:
            raise NotMeasured(f"{worker.worker} did not report how much memory it filled")
        short_mib = worker.vram_mib - allocated_mib
        if not short_mib < matrix_mib(worker.gemm_size, str(precision)) + ROUNDING_MIB:
            raise NotMeasured(
                f"{worker.worker} filled {allocated_mib:.0f} MiB where the plan gives it "
                f"{worker.vram_mib:.0f}, and no failed allocation explains it"
            )


def _sum_of_highest(device: DeviceEvidence, field: str) -> int:
    """Sum over workers of the highest count that each reported: the counters only grow."""
    highest: dict[str, int] = {}
    for worker, count in dict.fromkeys(device.memory.fields("worker", field)):
        highest[worker] = max(highest.get(worker, 0), count or 0)
    return sum(highest.values())


@Criterion(
    "memory.success_rate",
    title="success rate",
    unit="%",
    direction="at_least",
    limit="`limits.success_share`, for the worse of two shares. Tasks: each planned worker in the "
    "sustained stage, the device's first one in each other stage that ran, and each allocation. A "
    "worker's task ended well if it began, its device finished a round, and the worker did not fail, die "
    "or hang; an allocation, if the worker reported its memory as filled; each time that memory ran out, "
    "recovered from or not, counts as a failed one. Rounds: the verified share of all that the device "
    "did; work that the CPU did in its place does not count",
    limits=(SUCCESS_SHARE,),
    severity="config",
    remedy="read the first error of this device's workers under Events in report.html; if memory ran out, "
    "lower its load",
    unmeasured="no stage ran on the device, or it was deliberately left out; or one of its workers never "
    "started, was ended by Ray's memory monitor, or hung while others had the CPU; or a round was not "
    f"verified, and neither a wrong result nor an overflow was recorded; {OTHER_PLAN}",
    needs=("continuous",),
    caused_by_others=crowded_by,
)
def success_rate(device: DeviceEvidence) -> Finding:
    """Share of the device's tasks that ended well, or of its verified rounds, whichever is worse."""
    require_judged_plan(device)
    tally = tasks_of(device)
    lost = device.lost_to_others()
    if tally.total == 0 and lost is not None:
        raise lost
    if tally.total == 0:
        raise NotMeasured("no work was started", device.cause())
    rounds, lent = rounds_by_device(device)
    unverified = rounds.only(rounds.same("verified", False))
    by_tasks = 100 * tally.good / tally.total
    by_rounds = 100 * (1 - len(unverified) / len(rounds)) if rounds else by_tasks
    share = min(by_tasks, by_rounds)
    limit = device.limit(SUCCESS_SHARE).times(100)
    parts = []
    if tally.failures or not len(unverified):
        parts.append(f"{len(tally.failures)} of {tally.total} tasks and allocations failed")
    if len(unverified) or not tally.failures:
        parts.append(f"{len(unverified)} of {len(rounds)} rounds were not verified")
    if lent:
        parts.append(f"{count_of(len(lent), 'rounds')} by the CPU")
    if tally.failures:
        parts.append(f"first: {tally.failures[0].why.removeprefix('its task failed: ')}")
    detail = ", ".join(parts)
    moments = [one.t_s for one in tally.failures[:1]] + unverified.t_s[:1].tolist()
    when = min(moments, default=None)
    good = share >= limit.value
    if good and lost is not None:
        raise lost
    if good and len(unverified):
        _require_reasons(device, unverified)
    return pass_or_fail(share, limit, good=good, detail=detail, from_s=when)


def _require_reasons(device: DeviceEvidence, unverified: Rounds) -> None:
    """NotMeasured if a round was not verified, warm-up included, and no event explains it.

    A wrong result explains its worker's rounds from then on, in that stage, since it is reported every few
    seconds at most. An overflow of fp16 explains the round that is reported with it.
    """
    wrong: dict[tuple[str | None, str | None], float] = {}
    for event in device.events("wrong_result"):
        wrong.setdefault((event.stage, event.worker), event.t_s)
    overflows = grouped(device.events("overflow"), lambda event: (event.stage, event.worker))
    for one in unverified.records():
        where = (one.stage, one.worker)
        if wrong.get(where, math.inf) <= one.t_s + REPORT_DELAY_S:
            continue
        if any(abs(it.t_s - one.t_s) <= OVERFLOW_BEFORE_S for it in overflows.get(where, ())):
            continue
        raise NotMeasured(
            f"a round of {one.worker} in the {one.stage} stage was not verified, and no event explains it "
            f"(at t={one.t_s:.0f} s)"
        )


@Criterion(
    "memory.headroom",
    title="memory headroom",
    key_figure=True,
    unit="GiB",
    direction="at_least",
    limit="`limits.headroom_gib`; if less is free only because of what others held before the run, it warns",
    limits=(HEADROOM_GIB,),
    severity="config",
    remedy=FREE_SOME,
    surroundings=True,
    unmeasured="less is free although others held little before the run: they took it since, or the plan is "
    "too large for this device; or the device's free memory was not read while its workers held their "
    f"memory; {OTHER_PLAN}",
    needs=("continuous",),
)
def headroom(device: DeviceEvidence) -> Finding:
    """Memory still free on the device at the peak of the sustained stage.

    For the CPU as the device: the RAM that its process and its node still have available. Too little is no
    fault of the rig: what is missing is held by others or by the plan, and a card that lacks memory fails
    inventory.gpus_present.
    """
    require_judged_plan(device)
    window = device.evidence.loaded_window(device.evidence.steady_stage)
    free = [Readings.of(device.memory, "device_free_mib", window)]
    if device.is_cpu:
        free.append(device.evidence.node(device.device.node).readings("ram_available_mib", window))
    read = min(free, key=attrgetter("lowest"))
    if not read:
        raise NotMeasured("free memory was not read under load", device.cause())
    if device.found and not device.is_cpu and read.highest > device.identity.memory_total_mib:
        raise NotMeasured(f"{read.highest:.0f} MiB are said to be free, more than the card has")
    place = int(read.values.argmin())
    t_s, least_mib = float(read.times_s[place]), float(read.values[place])
    limit = device.limit(HEADROOM_GIB)
    least_gib = least_mib / MIB_PER_GIB
    if least_gib >= limit.value:
        return pass_or_fail(least_gib, limit, good=True)
    others_gib = _others_gib(device)
    if least_gib + others_gib >= limit.value:
        detail = f"others held {others_gib:.2f} GiB before the run; see inventory.foreign_memory"
        return Finding(Outcome.WARN, least_gib, limit, detail, FREE_SOME, from_s=t_s)
    holders = holders_at(device, t_s)
    reason = ", ".join(figure_and_limit(least_gib, limit.value, "GiB", "at_least"))
    others = holders or "others hold the rest, or the plan is too large"
    raise Disturbed(f"{reason}; not judged: {others}", FREE_SOME, t_s)


def _others_gib(device: DeviceEvidence) -> float:
    """GiB of the card that others held before the run; 0 if unknown, or as little as on an idle card."""
    others = device.foreign_memory
    used_mib = None if others is None else others.used_mib
    return 0.0 if used_mib is None or used_mib <= IDLE_MIB else used_mib / MIB_PER_GIB


FAULTS = (
    FaultKind("oom", "allocations fail (out of memory)", ("memory.no_oom",)),
    FaultKind(
        "oom-retry",
        "allocations succeed only after the cache was emptied",
        ("memory.no_oom",),
        ends="warns",
        keys=FROM,
        defaults=MID,
        duties=CONTINUOUS,
        of_task=True,
    ),
    FaultKind(
        "cpu-fallback",
        "memory runs out permanently, and the CPU does the card's work",
        ("memory.success_rate",),
    ),
    FaultKind(
        "memory-taken",
        "after the start others take almost all memory of the card; to= is in MiB",
        ("memory.headroom",),
        ends="not measured",
        keys=("to",),
    ),
    FaultKind(
        "half-filled",
        "a worker fills half of its planned memory and does not report it",
        ("memory.no_oom",),
        ends="not measured",
    ),
)
