"""Does the host's kernel count errors on the card's PCIe link?"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from rigproof.criteria.criterion import Criterion, Finding, Limit, NotApplicable, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.profiles.kinds.stages import DEVICE_DUTIES
from rigproof.profiles.tables.limits import LIMITS
from rigproof.records.samples import PcieErrors
from rigproof.records.verdict import Outcome
from rigproof.simulation.faults.kinds import FROM, MID, FaultKind

PCIE_CORRECTABLE_MINUTE = LIMITS.key(lambda limits: limits.pcie_correctable_minute)
PCIE_UNCORRECTED = LIMITS.key(lambda limits: limits.pcie_uncorrected)

MINUTE_S = 60.0
LONGEST_GAP_S = 2 * MINUTE_S  # between two records: there is one a minute at least
UNCORRECTED = {
    "fatal": "fatal",
    "nonfatal": "non-fatal",
    "port_fatal": "fatal",
    "port_nonfatal": "non-fatal",
}
CORRECTABLE = ("correctable", "port_correctable")
UNCOUNTED = (
    "the host's kernel counts no PCIe errors of this card (sysfs has no aer_dev_* for it), as in most "
    "virtual machines"
)


@Criterion(
    "transfer.errors",
    title="PCIe errors",
    unit="errors/min",
    direction="at_most",
    limit="`limits.pcie_correctable_minute` correctable errors in any minute; more fatal and non-fatal "
    "errors in the run than `limits.pcie_uncorrected` fail",
    limits=(PCIE_CORRECTABLE_MINUTE, PCIE_UNCORRECTED),
    severity="reseat",
    remedy="reseat card and riser, clean the contacts, try another slot; `sudo dmesg | grep -i aer` names "
    "the kind of error",
    unmeasured="the counts were not read before and after all loads and once a minute in between, or they "
    "went back; or the GPU was lost. Not applicable if the host's kernel does not count them, as in most "
    "virtual machines",
    needs=("continuous",),
    duties=DEVICE_DUTIES,
    applies_to_cpu=False,
)
def errors(device: DeviceEvidence) -> Finding:
    """The kernel counts no lost transactions on the card's PCIe link, and few that the link repaired.

    Advanced Error Reporting (AER), read from sysfs at both ends of the link, card and upstream port. Only
    what is new in the run counts: starting a host leaves errors of its own. Correctable errors are judged by
    the worst minute of the end that has more.
    """
    read = _readings(device)
    most, none = device.limit(PCIE_CORRECTABLE_MINUTE), device.limit(PCIE_UNCORRECTED)
    names = (*UNCORRECTED, *CORRECTABLE)
    counted = [name for name in names if any(getattr(one, name) is not None for one in read)]
    if not counted:
        raise NotApplicable(UNCOUNTED)
    lost = _lost(read, none)
    if lost is not None:
        return lost
    worst = {name: _worst_minute(read, name) for name in CORRECTABLE if name in counted}
    name = max(worst, key=lambda one: worst[one][0], default="")
    per_minute, from_s = worst.get(name, (0.0, 0.0))
    if per_minute > most.value:
        detail = f"correctable errors of {_end(read[0], name)}, repaired by sending again"
        return pass_or_fail(per_minute, most, good=False, detail=detail, from_s=from_s)
    _require_complete(device, read, counted)
    return pass_or_fail(per_minute, most, good=True)


def _readings(device: DeviceEvidence) -> list[PcieErrors]:
    """The card's error counts in the order of time; NotMeasured if there is none."""
    records = device.evidence.recording.of(PcieErrors).of(device.subject)
    if not records:
        if device.optional_limit(PCIE_UNCORRECTED) is None:
            raise NotApplicable("the run was recorded before rigproof read PCIe errors")
        raise NotMeasured("its node's agent recorded no PCIe errors, nor that it could not read any")
    return sorted(records, key=lambda one: one.t_s)


def _lost(read: Sequence[PcieErrors], most: Limit) -> Finding | None:
    """The failure if more errors that lost data are new than may be; else None."""
    for name, kind in UNCORRECTED.items():
        counts = _counts(read, name)
        if counts and max(counts) - counts[0] > most.value:
            number = max(counts) - counts[0]
            detail = f"{number} {kind} error{'' if number == 1 else 's'} of {_end(read[0], name)}"
            first = next(one for one in read if (getattr(one, name) or 0) > counts[0])
            return Finding(
                Outcome.FAIL,
                detail=detail,
                source=f"{most.value:g} fatal and non-fatal errors; {most.source}",
                from_s=first.t_s,
            )
    return None


def _end(one: PcieErrors, name: str) -> str:
    """The end of the link that a count is of, in words."""
    if not name.startswith("port_"):
        return "the card"
    return f"the upstream port{f' {one.port}' if one.port else ''}"


def _counts(read: Sequence[PcieErrors], name: str) -> list[int]:
    return [value for one in read if (value := getattr(one, name)) is not None]


def _worst_minute(read: Sequence[PcieErrors], name: str) -> tuple[float, float]:
    """The most errors in a minute, and when it began. A count holds until it is recorded again."""
    known = [one for one in read if getattr(one, name) is not None]
    times_s = np.asarray([one.t_s for one in known], np.float64)
    counts = np.asarray(_counts(read, name), np.float64)
    since = np.maximum(np.searchsorted(times_s, times_s - MINUTE_S, "right") - 1, 0)
    growth = counts - counts[since]
    place = int(growth.argmax())
    return float(growth[place]), float(max(times_s[place] - MINUTE_S, times_s[0]))


def _require_complete(device: DeviceEvidence, read: Sequence[PcieErrors], counted: Sequence[str]) -> None:
    """NotMeasured if errors of the run may have been missed."""
    for event in device.events("gpu_lost"):  # the kernel's counts still read, and only stand still
        raise NotMeasured(f"nothing crossed its link from t={event.t_s:.0f} s on: {event.message}")
    stages = [device.evidence.whole_window(name) for name in device.evidence.recording.stages]
    begin_s = min((one.from_s for one in stages), default=0.0)
    end_s = max((one.to_s for one in stages), default=0.0)
    if read[0].t_s > begin_s:
        raise NotMeasured("its PCIe errors were not read before the load")
    if read[-1].t_s < end_s:
        raise NotMeasured(
            f"its PCIe errors were not read after the load, for the last time at t={read[-1].t_s:.0f} s"
        )
    gap_s, at_s = max(((two.t_s - one.t_s, one.t_s) for one, two in pairwise(read)), default=(0.0, 0.0))
    if gap_s > LONGEST_GAP_S:
        raise NotMeasured(f"its PCIe errors were not read for {gap_s:.0f} s, from t={at_s:.0f} s on")
    for name in counted:
        counts = [getattr(one, name) for one in read]
        if None in counts:
            raise NotMeasured(f"the PCIe errors of {_end(read[0], name)} were not counted throughout the run")
        if any(two < one for one, two in pairwise(counts)):
            raise NotMeasured(
                f"the counts of {_end(read[0], name)} went back: they were reset during the run"
            )


FAULTS = (
    FaultKind(
        "pcie-errors",
        "the link repairs many errors: correctable ones are counted at both ends, and packets are repeated",
        ("transfer.errors",),
        keys=FROM,
        defaults=MID,
        duties=DEVICE_DUTIES,
    ),
    FaultKind(
        "pcie-uncorrected",
        "a transaction on the link is lost: the kernel counts a non-fatal error",
        ("transfer.errors",),
        keys=FROM,
        defaults=MID,
        duties=DEVICE_DUTIES,
    ),
)
