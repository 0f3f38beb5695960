"""Does the card reach its clock, or say why not?"""

from statistics import median

from rigproof.criteria.criterion import Finding, NotMeasured, compared, criterion
from rigproof.criteria.feeding import STAGE, fed_window
from rigproof.criteria.reasons import EXPLAINS_LOW_CLOCK, NAMES, names_of
from rigproof.criteria.sensors import moving_readings
from rigproof.criteria.series import values
from rigproof.criteria.subjects import DeviceEvidence
from rigproof.criteria.tasks import LOSSES
from rigproof.criteria.windows import Window, values_by_slice
from rigproof.records.verdict import Outcome

MOST = 0.5  # "most samples": more than half of them


@criterion(
    "clock.ratio",
    scope="device",
    unit="%",
    limit="`limits.clock_ratio_share` of the maximum SM clock that NVML reports, unless the driver "
    "gives a reason; in the feeding stage `limits.working_clock_mhz`, where the rig states it",
    remedy="restart the machine; a clock that stays low without a reason is a driver or hardware fault",
    unmeasured="too few readings of the SM clock under load, no maximum, a low clock whose reasons cannot be "
    "read, or one of a card that had lost its worker",
    faults=("clock-stuck", "clock-drops-idle"),
    applies_to_cpu=False,
    stages=("sustained",),
)
def ratio(device: DeviceEvidence) -> Finding:
    """The median SM clock of the slowest quarter of the sustained stage is close to the maximum.

    A lower one passes where the driver explains it (a power cap, a clock that somebody set, a slowdown
    that thermal.throttle judges) in most samples of that quarter. While the card is fed with rewards its
    median clock is no lower either: a card that waits lets its clock go.
    """
    finding = _sustained(device)
    if finding.outcome is Outcome.FAIL or STAGE not in device.evidence.recording.stages:
        return finding
    return _drop_while_fed(device) or finding


def _drop_while_fed(device: DeviceEvidence) -> Finding | None:
    """An unexplained low clock in the feeding stage; None where there is none."""
    window = fed_window(device)
    clock_mhz = median(moving_readings(device, window, "sm_clock_mhz", "SM clock").values)
    highest_mhz = _highest_mhz(device)
    working = device.optional_limit("working_clock_mhz")
    limit = device.limit("clock_ratio_share").times(100)
    if working is not None:
        limit = working.times(100 / highest_mhz, f", {working.value:g} MHz")
    if 100 * clock_mhz / highest_mhz >= limit.value or _main_reasons(device, window):
        return None
    detail = f"{clock_mhz:.0f} MHz of {highest_mhz:.0f} MHz in the feeding stage"
    return compared(
        100 * clock_mhz / highest_mhz,
        limit,
        good=False,
        detail=f"{detail}, and the driver gives no reason",
        remedy="see feeding.idle_gaps: a card that waits for rewards lets its clock go",
        from_s=window.from_s,
        length_s=window.length_s,
    )


def _sustained(device: DeviceEvidence) -> Finding:
    """The sustained stage's slowest quarter."""
    window = device.evidence.complete_window("sustained")
    pairs = moving_readings(device, window, "sm_clock_mhz", "SM clock")
    highest_mhz = _highest_mhz(device)
    quarters = window.quarters()
    clocks = values_by_slice(pairs, quarters)
    if not all(clocks):
        raise NotMeasured("the SM clock was not read for a quarter of the stage")
    medians = [median(those) for those in clocks]
    slowest = min(medians)
    limit = device.limit("clock_ratio_share").times(100)
    share = 100 * slowest / highest_mhz
    if share >= limit.value:
        return compared(share, limit, good=True)
    quarter = quarters[medians.index(slowest)]
    where = f"{slowest:.0f} MHz of {highest_mhz:.0f} MHz"
    reasons = _main_reasons(device, quarter)
    if reasons:
        return compared(share, limit, good=True, detail=f"{where}, explained by {names_of(reasons)}")
    lost = [one for one in device.events(*LOSSES) if one.stage == "sustained" and one.t_s < quarter.to_s]
    if lost:
        raise NotMeasured(
            f"{where}, but its worker was lost at t={lost[0].t_s:.0f} s: a card without work lowers its clock"
        )
    detail = f"{where}, and the driver gives no reason"
    return compared(share, limit, good=False, detail=detail, from_s=quarter.from_s, length_s=quarter.length_s)


def _highest_mhz(device: DeviceEvidence) -> float:
    highest_mhz = device.identity.sm_clock_max_mhz
    if highest_mhz is None or highest_mhz <= 0:
        raise NotMeasured("NVML does not report the maximum SM clock")
    return highest_mhz


def _main_reasons(device: DeviceEvidence, quarter: Window) -> int:
    """The explaining bits, if most samples of the quarter have one; 0 where they do not."""
    samples = device.loaded_samples(quarter)
    known: list[int] = values(samples, "clock_event_reasons").values
    if len(known) <= MOST * len(samples):
        raise NotMeasured("the clock is low under load, and the reasons for it cannot be read")
    if sum(1 for bits in known if bits & EXPLAINS_LOW_CLOCK) <= MOST * len(known):
        return 0
    # Name those that are there for a tenth of the time, not each that flickered once.
    named = sum(bit for bit in NAMES if bit & EXPLAINS_LOW_CLOCK and _count(known, bit) >= len(known) / 10)
    return named or EXPLAINS_LOW_CLOCK & known[0]


def _count(known: list[int], bit: int) -> int:
    return sum(1 for bits in known if bits & bit)
