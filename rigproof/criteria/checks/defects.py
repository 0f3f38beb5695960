"""Has the card found a defect of its own that needs a repair?"""

from collections.abc import Callable
from dataclasses import dataclass

from rigproof.criteria.criterion import Criterion, Finding, NotApplicable, NotMeasured, NotRead
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.profiles.kinds.stages import DUTIES
from rigproof.records.measurements import GpuCounters
from rigproof.records.verdict import Outcome, Severity
from rigproof.simulation.faults.kinds import FROM, MID, FaultKind, unreported

SOURCE = "NVML's reports"
REPLACE = "have the card replaced"
REPAIR = "reset the GPU (`nvidia-smi -r`), or restart the machine, so that it repairs itself; then run again"
REFLASH = "have its InfoROM restored by the card's seller; if the fault comes back, have the card replaced"


@dataclass(frozen=True, slots=True)
class Defect:
    """One thing that the card reports: whether a reading has it, its words, what to do."""

    read: Callable[[GpuCounters], bool | None]  # True: the defect is there; None: not reported
    what: str
    remedy: str
    severity: Severity


DEFECTS = (
    Defect(
        lambda one: one.sram_threshold_exceeded,
        "uncorrectable errors in its caches (SRAM) exceed NVIDIA's threshold",
        REPLACE,
        "rma",
    ),
    Defect(
        lambda one: None if one.inforom_valid is None else not one.inforom_valid,
        "the checksum of its InfoROM is wrong",
        REFLASH,
        "rma",
    ),
    Defect(
        lambda one: one.channel_repair_pending, "a memory channel is waiting for its repair", REPAIR, "reset"
    ),
    Defect(
        lambda one: one.tpc_repair_pending, "a compute unit (TPC) is waiting for its repair", REPAIR, "reset"
    ),
)


@Criterion(
    "health.defects",
    title="reported defects",
    limit="NVML reports no SRAM errors over NVIDIA's threshold, no pending repair of a memory channel or "
    "TPC, and a valid InfoROM",
    severity="rma",
    remedy=REPLACE,
    unmeasured="one of these was reported before the load and not after it, or a query of this GPU failed "
    "and none was reported; not applicable if the driver reports none of them",
    applies_to_cpu=False,
    needs=("continuous",),
)
def defects(device: DeviceEvidence) -> Finding:
    """The card itself reports no defect that needs a repair or a replacement."""
    before, after = device.counters("before"), device.counters("after")
    read = [one for one in (after, before) if one is not None]
    for defect in DEFECTS:
        for one in read:
            if defect.read(one):
                detail = f"{defect.what} {one.moment} the load"
                return Finding(
                    Outcome.FAIL, detail=detail, remedy=defect.remedy, severity=defect.severity, source=SOURCE
                )
    known = [defect for defect in DEFECTS if any(defect.read(one) is not None for one in read)]
    if not known:
        if before is None or device.events("nvml_error", "gpu_lost", "timeout"):
            raise NotMeasured("what the card reports of its own defects was not read")
        raise NotApplicable("the driver reports no defects of this card")
    if after is None or any(defect.read(after) is None for defect in known):
        raise NotRead("what the card reports of its own defects was not read after the load")
    return Finding(Outcome.PASS, detail="the card reports none", source=SOURCE)


LACKS = unreported("ecc", "its driver reports no defects")

FAULTS = (
    FaultKind(
        "sram-errors",
        "errors in the card's caches exceed NVIDIA's threshold",
        ("health.defects",),
        keys=FROM,
        defaults=MID,
        duties=DUTIES,
        lacks=LACKS,
    ),
    FaultKind(
        "repair-pending",
        "a memory channel of the card is waiting for its repair",
        ("health.defects",),
        keys=FROM,
        defaults=MID,
        duties=DUTIES,
        lacks=LACKS,
    ),
    FaultKind("inforom-corrupt", "the checksum of the card's InfoROM is wrong", ("health.defects",)),
)
