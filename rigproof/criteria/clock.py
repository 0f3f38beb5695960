"""Does the card reach its clock, or say why not?"""

from statistics import median

from rigproof.criteria.criterion import Finding, NotMeasured, compared, criterion
from rigproof.criteria.reasons import EXPLAINS_LOW_CLOCK, NAMES, names_of
from rigproof.criteria.sensors import moving_readings
from rigproof.criteria.subjects import DeviceEvidence
from rigproof.criteria.windows import Window, values_by_slice
from rigproof.records.samples import GpuSample

MOST = 0.5  # "most samples": more than half of them


@criterion(
    "clock.ratio",
    scope="device",
    unit="%",
    limit="`limits.clock_ratio_share` of the maximum SM clock that NVML reports, unless the driver "
    "gives a reason",
    remedy="restart the machine; a clock that stays low without a reason is a driver or hardware fault",
    unmeasured="too few readings of the SM clock under load, no maximum, or a low clock whose reasons "
    "cannot be read",
    faults=("clock-stuck",),
    applies_to_cpu=False,
    stages=("sustained",),
)
def ratio(device: DeviceEvidence) -> Finding:
    """The median SM clock of the slowest quarter of the sustained stage is close to the maximum.

    A lower one passes where the driver explains it (a power cap, a clock that somebody set, a slowdown
    that thermal.throttle judges) in most samples of that quarter.
    """
    window = device.evidence.complete_window("sustained")
    pairs = moving_readings(device, window, "sm_clock_mhz", "SM clock")
    highest_mhz = device.identity.sm_clock_max_mhz
    if highest_mhz is None or highest_mhz <= 0:
        raise NotMeasured("NVML does not report the maximum SM clock")
    quarters = window.quarters()
    clocks = values_by_slice(pairs, quarters)
    if not all(clocks):
        raise NotMeasured("the SM clock was not read for a quarter of the stage")
    medians = [median(values) for values in clocks]
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
    detail = f"{where}, and the driver gives no reason"
    return compared(share, limit, good=False, detail=detail, from_s=quarter.from_s, length_s=quarter.length_s)


def _main_reasons(device: DeviceEvidence, quarter: Window) -> int:
    """The explaining bits, if most samples of the quarter have one; 0 where they do not."""
    samples: list[GpuSample] = device.loaded_samples(quarter)
    known = [s.clock_event_reasons for s in samples if s.clock_event_reasons is not None]
    if len(known) <= MOST * len(samples):
        raise NotMeasured("the clock is low under load, and the reasons for it cannot be read")
    if sum(1 for bits in known if bits & EXPLAINS_LOW_CLOCK) <= MOST * len(known):
        return 0
    # Name those that are there for a tenth of the time, not each that flickered once.
    named = sum(bit for bit in NAMES if bit & EXPLAINS_LOW_CLOCK and _count(known, bit) >= len(known) / 10)
    return named or EXPLAINS_LOW_CLOCK & known[0]


def _count(known: list[int], bit: int) -> int:
    return sum(1 for bits in known if bits & bit)
