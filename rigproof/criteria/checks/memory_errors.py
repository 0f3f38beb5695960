"""Does the memory keep what is written to it? Judged by the card's own counters."""

from rigproof.criteria.criterion import Criterion, Finding, Limit, NotApplicable, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.counters import growth
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.profiles.kinds.stages import DEVICE_DUTIES
from rigproof.profiles.tables.limits import LIMITS
from rigproof.records.measurements import GpuCounters
from rigproof.records.verdict import Outcome, count_of
from rigproof.simulation.faults.kinds import FROM, MID, FaultKind, unreported

ECC_UNCORRECTED = LIMITS.key(lambda limits: limits.ecc_uncorrected)
REMAPPED_ROWS_FAIL = LIMITS.key(lambda limits: limits.remapped_rows_fail)
RETIRED_PAGES_FAIL = LIMITS.key(lambda limits: limits.retired_pages_fail)
RETIRED_PAGES_WARN = LIMITS.key(lambda limits: limits.retired_pages_warn)

WORN = "have the card replaced soon: further errors there cannot be remapped"
REPLACE = "have the card replaced: its memory wears out"


@Criterion(
    "memory.ecc",
    title="uncorrected ECC",
    unit="errors",
    direction="at_most",
    limit="`limits.ecc_uncorrected`",
    limits=(ECC_UNCORRECTED,),
    severity="reset",
    remedy="reset or restart the machine; if errors come back, have the card replaced",
    unmeasured="a counter is missing before or after the run; not applicable if the SKU file lists `ecc` "
    "in `unsupported_sensors`, nor if ECC is switched off, nor on an unknown card without ECC",
    applies_to_cpu=False,
    needs=("continuous",),
)
def ecc(device: DeviceEvidence) -> Finding:
    """No uncorrected memory error during the run; corrected ones warn."""
    before, after = device.counters("before"), device.counters("after")
    if not _any(before, after, "ecc_uncorrected") and device.identity.ecc_enabled is not True:
        _excuse(device, "ecc", "this card has no ECC", counted=before or after)
    uncorrected = growth(before, after, "ecc_uncorrected", "uncorrected memory errors")
    limit = device.limit(ECC_UNCORRECTED)
    if uncorrected > limit.value:
        return pass_or_fail(uncorrected, limit, good=False, detail="uncorrected, during the run")
    corrected = growth(before, after, "ecc_corrected", "corrected memory errors")
    if corrected > 0:
        detail = f"{count_of(corrected, 'corrected memory errors')} during the run"
        return Finding(
            Outcome.WARN,
            uncorrected,
            limit,
            detail,
            "watch whether the count keeps growing; then have the card checked",
            severity="warn",
        )
    return pass_or_fail(uncorrected, limit, good=True)


def _excuse(device: DeviceEvidence, sensor: str, lacks: str, *, counted: GpuCounters | None) -> None:
    """NotApplicable if the card cannot count errors; for a known SKU only if its file says so.

    A card without a SKU file must have answered, without these: `counted` is a reading of its counters.
    """
    enabled = device.identity.ecc_enabled
    if enabled is False:
        raise NotApplicable("ECC is switched off")
    if device.device.sku is None:
        if enabled is None and counted is not None and device.answers:
            raise NotApplicable(lacks)
    elif device.lacks_sensor(sensor):
        raise NotApplicable(f"{lacks}, as {device.sku_file} says")


def _any(before: GpuCounters | None, after: GpuCounters | None, field: str) -> bool:
    return any(one is not None and getattr(one, field) is not None for one in (before, after))


@Criterion(
    "memory.row_remap",
    title="remapped rows",
    unit="rows",
    direction="at_most",
    limit="fewer than `limits.remapped_rows_fail` rows; a pending or failed remap fails; for retired pages "
    "`limits.retired_pages_fail` and `limits.retired_pages_warn`. A bank with few or no spare rows warns",
    limits=(REMAPPED_ROWS_FAIL, RETIRED_PAGES_FAIL, RETIRED_PAGES_WARN),
    severity="reset",
    remedy="restart the machine so that the remap takes effect; if rows keep failing, have the card replaced",
    unmeasured="the counters are missing before or after the run; not applicable if ECC is switched off, "
    "or the SKU file lists `row_remap` in `unsupported_sensors`; nor on an unknown card without ECC",
    applies_to_cpu=False,
    needs=("continuous",),
)
def row_remap(device: DeviceEvidence) -> Finding:
    """The card has no broken memory rows waiting for a remap, nor so many remapped rows that it wears out."""
    before, after = device.counters("before"), device.counters("after")
    if not any(_any(before, after, field) for field in ("remapped_uncorrectable", "retired_pages")):
        _excuse(device, "row_remap", "this card does not report remapped rows", counted=before or after)
    latest = after or before
    if latest is None:
        raise NotMeasured("remapped rows were not read")
    rows = latest.remapped_uncorrectable
    limit = _fewer_than(device.limit(REMAPPED_ROWS_FAIL))
    if latest.remap_failed or latest.remap_pending:
        failed = bool(latest.remap_failed)
        return Finding(
            Outcome.FAIL,
            detail=f"a row remap {'failed' if failed else 'is pending'}",
            remedy=REPLACE if failed else "",
            severity="rma" if failed else None,
            source="NVML's row-remap state",
        )
    if rows is not None and rows > limit.value:
        detail = "rows remapped for uncorrectable errors"
        return pass_or_fail(rows, limit, good=False, detail=detail, remedy=REPLACE, severity="rma")
    return _by_pages(device, before, after) or _by_new_remaps(limit, before, after)


def _fewer_than(number: Limit) -> Limit:
    """The most that is allowed, where this many rows or pages fail."""
    return Limit(number.value - 1, f"fewer than {number.value:g}, {number.source}")


def _by_pages(
    device: DeviceEvidence, before: GpuCounters | None, after: GpuCounters | None
) -> Finding | None:
    """Retired pages, which cards before Ampere have instead of remapped rows; None: no verdict from them."""
    latest = after or before
    pages = None if latest is None else latest.retired_pages
    if pages is None:
        return None
    fail, warn = _fewer_than(device.limit(RETIRED_PAGES_FAIL)), device.limit(RETIRED_PAGES_WARN)
    if pages > fail.value:
        return pass_or_fail(
            pages, fail, good=False, detail="retired memory pages", remedy=REPLACE, severity="rma"
        )
    if pages > warn.value:
        return Finding(Outcome.WARN, pages, warn, "retired memory pages")
    if _any(before, after, "remapped_uncorrectable"):
        return None
    grown = growth(before, after, "retired_pages", "retired pages")
    if grown:
        return Finding(Outcome.WARN, pages, warn, f"{grown} memory pages retired during the run")
    return pass_or_fail(pages, fail, good=True, detail="retired memory pages")


def _by_new_remaps(limit: Limit, before: GpuCounters | None, after: GpuCounters | None) -> Finding:
    grown = growth(before, after, "remapped_uncorrectable", "remapped rows")
    if _any(before, after, "remapped_correctable"):
        grown += growth(before, after, "remapped_correctable", "remapped rows")
    assert after is not None
    if after.remap_pending is None or after.remap_failed is None:
        raise NotMeasured("whether a row remap is pending or failed was not read")
    rows = after.remapped_uncorrectable or 0
    if grown:
        return Finding(Outcome.WARN, rows, limit, f"{count_of(grown, 'rows')} remapped during the run")
    few, none = (after.remap_spares or (0,) * 5)[-2:]
    if few or none:
        banks = " and ".join(
            f"{number} with {spares}" for number, spares in ((none, "no"), (few, "few")) if number
        )
        detail = f"memory banks that can remap few further errors: {banks} spare rows"
        return Finding(Outcome.WARN, rows, limit, detail, WORN, severity="rma")
    return pass_or_fail(rows, limit, good=True)


NO_ECC = unreported("ecc", "its driver counts no ECC errors")
NO_REMAP = unreported("row_remap", "its driver reports no remapped rows")

FAULTS = (
    FaultKind(
        "ecc-uncorrected",
        "a double-bit error: it is counted, Xid 48 (and 95 with row remapping) is raised, and the work ends",
        ("memory.ecc",),
        keys=FROM,
        defaults=MID,
        duties=DEVICE_DUTIES,
        lacks=NO_ECC,
    ),
    FaultKind(
        "ecc-corrected-rate",
        "corrected errors increase during the run",
        ("memory.ecc",),
        ends="warns",
        keys=FROM,
        defaults={"after": "20%"},
        duties=DEVICE_DUTIES,
        lacks=NO_ECC,
    ),
    FaultKind(
        "row-remap-pending",
        "a memory row is waiting for its remap",
        ("memory.row_remap",),
        keys=FROM,
        defaults=MID,
        duties=DEVICE_DUTIES,
        lacks=NO_REMAP,
    ),
    FaultKind(
        "spare-rows-used",
        "a memory bank has no spare row left",
        ("memory.row_remap",),
        ends="warns",
        keys=FROM,
        defaults=MID,
        duties=DEVICE_DUTIES,
        lacks=NO_REMAP,
    ),
    FaultKind(
        "row-remap-failed",
        "a memory row could not be remapped",
        ("memory.row_remap",),
        keys=FROM,
        defaults=MID,
        duties=DEVICE_DUTIES,
        lacks=NO_REMAP,
    ),
)
