"""Is there enough memory, and does it hold what is written to it?"""

from rigproof.criteria.criterion import Finding, Limit, NotMeasured, compared, criterion
from rigproof.criteria.series import readings
from rigproof.criteria.subjects import DeviceEvidence
from rigproof.records.measurements import Event, GpuCounters, MemoryReading
from rigproof.records.verdict import Outcome

MIB_PER_GIB = 1024
FAILED_WORK = ("oom", "worker_failed", "worker_died", "worker_hung")


@criterion(
    "memory.no_oom",
    scope="device",
    unit="OOMs",
    limit="`limits.ooms`",
    remedy="lower `vram_share` or the number of workers in the rig profile, or free the card's memory",
    unmeasured="a worker of the device never reported its allocator",
    faults=("oom", "oom-retry"),
    stages=("sustained",),
)
def no_oom(device: DeviceEvidence) -> Finding:
    """No allocation failed for want of memory; one that succeeded only after a retry warns."""
    allowed = device.limit("ooms")
    events = device.events("oom")
    counted = _sum_of_highest(device.memory, "ooms")
    ooms = max(len(events), counted)
    if ooms > allowed.value:
        detail = events[0].message if events else "the allocator counted them, and a retry hid them"
        return compared(ooms, allowed, good=False, detail=detail, from_s=events[0].t_s if events else None)
    reported = {reading.worker for reading in device.memory if reading.stage == "sustained"}
    if len(reported) < device.device.gpu.workers:
        cause = device.cause()
        raise NotMeasured(
            f"{len(reported)} of {device.device.gpu.workers} workers reported their memory"
            + (f": {cause}" if cause else "")
        )
    retries = _sum_of_highest(device.memory, "alloc_retries")
    if retries > 0:
        detail = f"{retries} allocations succeeded only after the cache was emptied"
        return Finding(Outcome.WARN, ooms, allowed, detail)
    return compared(ooms, allowed, good=True)


def _sum_of_highest(memory: list[MemoryReading], field: str) -> int:
    """Sum over workers of the highest count that each reported: the counters only grow."""
    highest: dict[str, int] = {}
    for reading in memory:
        highest[reading.worker] = max(highest.get(reading.worker, 0), getattr(reading, field) or 0)
    return sum(highest.values())


@criterion(
    "memory.success_rate",
    scope="device",
    unit="%",
    limit="`limits.success_share`",
    remedy="read the first error of this device's workers in the report, and lower its load if it ran "
    "out of memory",
    unmeasured="no worker of the device began any work",
    faults=("oom",),
    stages=("sustained",),
)
def success_rate(device: DeviceEvidence) -> Finding:
    """Share of the device's tasks (rounds of work, counted allocations) that ended well."""
    good = device.all_rounds + sum(map(_count, device.events("task_succeeded")))
    failures = device.events(*FAILED_WORK)
    if good + len(failures) == 0:
        cause = device.cause()
        raise NotMeasured("no work was begun" + (f": {cause}" if cause else ""))
    share = 100 * good / (good + len(failures))
    limit = device.limit("success_share").times(100)
    detail = f"{len(failures)} of {good + len(failures)} failed"
    if failures:
        detail += f", first: {failures[0].message}"
    when = failures[0].t_s if failures else None
    return compared(share, limit, good=share >= limit.value, detail=detail, from_s=when)


def _count(event: Event) -> int:
    """How many units of work an event counts; NotMeasured where it does not say a number."""
    count = event.data.get("count", 1)
    if not isinstance(count, int) or count < 0:
        raise NotMeasured(f"a count of finished work is {count!r}")
    return count


@criterion(
    "memory.headroom",
    scope="device",
    unit="GiB",
    limit="`limits.headroom_gib`",
    remedy="lower `vram_share` in the rig profile, or end what else holds memory of the card",
    unmeasured="free memory of the device was not read while its workers held theirs",
    faults=("foreign-memory", "oom"),
    stages=("sustained",),
)
def headroom(device: DeviceEvidence) -> Finding:
    """Memory still free on the device at the peak of the sustained stage.

    For the CPU as the device: the RAM that it, and its node, still has available.
    """
    window = device.evidence.loaded_window("sustained")
    loaded = [one for one in device.memory if window.from_s <= one.t_s <= window.to_s]
    free = [(one.t_s, one.device_free_mib) for one in loaded if one.device_free_mib is not None]
    if device.is_cpu:
        samples = device.evidence.node(device.device.node).loaded_samples(window)
        free += readings(samples, "ram_available_mib")
    if not free:
        cause = device.cause()
        raise NotMeasured("free memory was not read under load" + (f": {cause}" if cause else ""))
    t_s, least_mib = min(free, key=lambda pair: pair[1])
    limit = device.limit("headroom_gib")
    good = least_mib / MIB_PER_GIB >= limit.value
    return compared(least_mib / MIB_PER_GIB, limit, good=good, from_s=None if good else t_s)


@criterion(
    "memory.ecc",
    scope="device",
    unit="errors",
    limit="`limits.ecc_uncorrected`",
    remedy="reset or restart the machine; if errors come back, have the card replaced",
    unmeasured="a counter is missing before or after the run; not required on a card without ECC or "
    "with ECC switched off",
    faults=("ecc-uncorrected", "ecc-corrected-rate"),
    applies_to_cpu=False,
    stages=("sustained",),
)
def ecc(device: DeviceEvidence) -> Finding:
    """No uncorrected memory error during the run; corrected ones warn."""
    enabled = device.identity.ecc_enabled
    before, after = device.counters("before"), device.counters("after")
    known = _any(before, after, "ecc_uncorrected")
    if not known and (enabled is not True or device.lacks_sensor("ecc_uncorrected")):
        raise NotMeasured(
            "ECC is switched off" if enabled is False else "this card has no ECC", required=False
        )
    uncorrected = _growth(before, after, "ecc_uncorrected", "uncorrected memory errors")
    limit = device.limit("ecc_uncorrected")
    if uncorrected > limit.value:
        return compared(uncorrected, limit, good=False, detail="uncorrected, during the run")
    corrected = _growth(before, after, "ecc_corrected", "corrected memory errors")
    if corrected > 0:
        detail = f"{corrected} corrected memory errors during the run"
        return Finding(
            Outcome.WARN,
            uncorrected,
            limit,
            detail,
            "watch whether the count keeps growing; then have the card checked",
        )
    return compared(uncorrected, limit, good=True)


def _any(before: GpuCounters | None, after: GpuCounters | None, field: str) -> bool:
    return any(one is not None and getattr(one, field) is not None for one in (before, after))


def _growth(before: GpuCounters | None, after: GpuCounters | None, field: str, what: str) -> int:
    """How far a counter went up during the run. NotMeasured where an end is missing or it went down."""
    values = []
    for moment, one in (("before", before), ("after", after)):
        value = None if one is None else getattr(one, field)
        if value is None:
            raise NotMeasured(f"{what} were not counted {moment} the load")
        values.append(int(value))
    if values[1] < values[0]:
        raise NotMeasured(
            f"the counter of {what} went back from {values[0]} to {values[1]}: it was reset during the run"
        )
    return values[1] - values[0]


@criterion(
    "memory.row_remap",
    scope="device",
    unit="rows",
    limit="a pending or failed remap fails; `limits.remapped_rows_fail`; for retired pages "
    "`limits.retired_pages_fail` and `limits.retired_pages_warn`",
    remedy="restart the machine so that the remap takes effect; if one failed or there are many, have "
    "the card replaced",
    unmeasured="the counters are missing before or after the run; not required on a card without ECC",
    faults=("row-remap-pending", "row-remap-failed"),
    applies_to_cpu=False,
    stages=("sustained",),
)
def row_remap(device: DeviceEvidence) -> Finding:
    """The card has no broken memory rows waiting for a remap, nor so many that it wears out."""
    before, after = device.counters("before"), device.counters("after")
    known = any(_any(before, after, field) for field in ("remapped_uncorrectable", "retired_pages"))
    if not known and (device.identity.ecc_enabled is not True or device.lacks_sensor("row_remap")):
        raise NotMeasured("this card does not report remapped rows", required=False)
    latest = after or before
    if latest is None:
        raise NotMeasured("remapped rows were not read")
    rows = latest.remapped_uncorrectable
    limit = device.limit("remapped_rows_fail")
    if latest.remap_failed or latest.remap_pending:
        word = "failed" if latest.remap_failed else "is pending"
        return Finding(Outcome.FAIL, rows, limit, f"a row remap {word}")
    if rows is not None and rows >= limit.value:
        return compared(rows, limit, good=False, detail="rows remapped for uncorrectable errors")
    return _by_pages(device, before, after) or _by_new_remaps(limit, before, after)


def _by_pages(
    device: DeviceEvidence, before: GpuCounters | None, after: GpuCounters | None
) -> Finding | None:
    """Retired pages, which cards before Ampere have in place of remapped rows; None: nothing decided."""
    latest = after or before
    pages = None if latest is None else latest.retired_pages
    if pages is None:
        return None
    fail, warn = device.limit("retired_pages_fail"), device.limit("retired_pages_warn")
    if pages >= fail.value:
        return compared(pages, fail, good=False, detail="retired memory pages")
    if pages > warn.value:
        return Finding(Outcome.WARN, pages, warn, "retired memory pages")
    if _any(before, after, "remapped_uncorrectable"):
        return None
    grown = _growth(before, after, "retired_pages", "retired pages")
    if grown:
        return Finding(Outcome.WARN, pages, warn, f"{grown} memory pages retired during the run")
    return compared(pages, fail, good=True, detail="retired memory pages")


def _by_new_remaps(limit: Limit, before: GpuCounters | None, after: GpuCounters | None) -> Finding:
    grown = _growth(before, after, "remapped_uncorrectable", "remapped rows")
    if _any(before, after, "remapped_correctable"):
        grown += _growth(before, after, "remapped_correctable", "remapped rows")
    assert after is not None
    if after.remap_pending is None or after.remap_failed is None:
        raise NotMeasured("whether a row remap is pending or failed was not read")
    rows = after.remapped_uncorrectable or 0
    if grown:
        return Finding(Outcome.WARN, rows, limit, f"{grown} rows remapped during the run")
    return compared(rows, limit, good=True)
