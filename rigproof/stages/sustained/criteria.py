"""How fast is each device under a continuous load, and does it stay so?"""

from statistics import median

from rigproof.criteria.criterion import (
    Finding,
    Limit,
    NotMeasured,
    compared,
    criterion,
)
from rigproof.criteria.effects import ABSENT, BROKEN, WORKER_LOST, Also
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.floors import FLOORS, SLOW, Measured, against
from rigproof.criteria.evidence.rates import settled, sustained_rate
from rigproof.criteria.evidence.strangers import slowed_by
from rigproof.criteria.evidence.subjects import DeviceEvidence
from rigproof.criteria.evidence.windows import work_by_slice
from rigproof.records.verdict import Outcome
from rigproof.stages.sustained.faults import NO_RATE, SLOW_CARD
from rigproof.stages.sustained.peers import peer_outlier
from rigproof.stages.sustained.settings import FIGURE, SustainedSettings

STABILITY_WINDOW_S = 5.0
SHORTEST_WINDOW_S = 1.0  # a shorter window is noise: it holds a few rounds
FEWEST_WINDOWS = 4


@criterion(
    "throughput.sustained",
    scope="device",
    unit="TFLOP/s",
    limit=FLOORS,
    remedy=SLOW,
    unmeasured="the stage broke off, or no verified round came from this device",
    also=Also(
        fails=(*SLOW_CARD, "clock-locked", *BROKEN, *WORKER_LOST, "bit-flip"),
        unmeasured=(*NO_RATE, "stranger-computes", "stranger-computes:after=5%"),
    ),
    figures=(FIGURE,),
    stages=("sustained",),
    rate=True,
    explained=slowed_by,
)
def sustained(device: DeviceEvidence) -> Finding:
    """Verified 16-bit work of all workers of the device, over the loaded time of the sustained stage."""
    rate = sustained_rate(device)
    _, verified = settled(device)
    rounds = verified.only(verified.same("phase", "measure"))
    workers = len(device.planned_workers)
    measured = Measured.of(device, FIGURE, rate.precision, workers=workers, rounds=rounds)
    return against(device, rate.tflops, measured)


@criterion(
    "throughput.combined",
    scope="rig",
    unit="TFLOP/s",
    limit="`stages.sustained.combined_floor_tflops`; else none",
    remedy="find the slow device in throughput.sustained and repair that one",
    unmeasured="any promised device has no sustained rate: a sum without it would only look low",
    also=Also(
        fails=(*SLOW_CARD, *BROKEN, *WORKER_LOST, "power-capped:to=300"),
        unmeasured=(*ABSENT, *NO_RATE, "stranger-computes:after=5%"),
    ),
    sum_of="throughput.sustained",
    stages=("sustained",),
    rate=True,
    explained=slowed_by,
)
def combined(rig: Evidence) -> Finding:
    """The sustained rates of all promised devices together."""
    rates: dict[str, float] = {}
    without = []
    for device in rig.devices:
        try:
            rates[device.subject] = sustained_rate(device).tflops
        except NotMeasured:
            without.append(device.subject)
    if without or not rates:
        raise NotMeasured(f"no sustained rate of {', '.join(without) or 'any device'}")
    detail = " + ".join(f"{subject} {rate:.1f}" for subject, rate in list(rates.items())[:16])
    floor = rig.loaded.settings(SustainedSettings).combined_floor_tflops
    if floor is None:
        return Finding(Outcome.NO_LIMIT, sum(rates.values()), detail=detail)
    limit = Limit(floor, rig.source_of("stages.sustained.combined_floor_tflops"))
    return compared(sum(rates.values()), limit, good=sum(rates.values()) >= floor, detail=detail)


@criterion(
    "throughput.stability",
    scope="device",
    unit="%",
    limit="`stages.sustained.stability_drop_share` (last quarter's median window against the first's) and "
    "`limits.stability_worst_window_share` (worst window against the median); as many windows of 5 s "
    "as the settled load holds, and four at least, which divide all of it. None for the CPU as the device, "
    "which others use too",
    remedy="watch temperature, clock and power over the stage in the report: heat and a weak power "
    "supply show as a sag",
    unmeasured="less than 4 s of settled load",
    also=Also(fails=(*BROKEN, "bit-flip"), unmeasured=(*NO_RATE, *WORKER_LOST, "stranger-computes")),
    stages=("sustained",),
    explained=slowed_by,
)
def stability(device: DeviceEvidence) -> Finding:
    """The rate at the end of the sustained stage is the rate at its start, and no window falls far below."""
    window, verified = settled(device)
    number = max(FEWEST_WINDOWS, int(window.length_s / STABILITY_WINDOW_S))
    width_s = window.length_s / number  # no rest is left out: a card may sag in the last seconds
    if width_s < SHORTEST_WINDOW_S:
        raise NotMeasured(
            f"{window.length_s:.1f} s of settled load do not hold {FEWEST_WINDOWS} windows of 1 s"
        )
    slices = window.slices(width_s)
    rates = [work / width_s for work in work_by_slice(verified, slices)]
    quarter = len(rates) // 4
    middle = median(rates)
    first, last = median(rates[:quarter]), median(rates[-quarter:])
    if middle <= 0 or first <= 0:
        raise NotMeasured("the rate of most windows is zero; there is nothing to compare")
    kept, worst = last / first, min(rates) / middle
    if device.is_cpu:
        return Finding(Outcome.NO_LIMIT, 100 * kept, detail="the CPU's rate follows whoever else runs on it")
    drop, dip = (
        device.limit("stability_drop_share", "sustained"),
        device.limit("stability_worst_window_share"),
    )
    if kept < drop.value:
        detail = f"{last:.1f} TFLOP/s in the last quarter, {first:.1f} in the first"
        return compared(
            100 * kept, drop.times(100), good=False, detail=detail, from_s=slices[-quarter].from_s
        )
    where = slices[rates.index(min(rates))]
    detail = f"worst window {min(rates):.1f} TFLOP/s, median {middle:.1f}"
    if worst < dip.value:
        return compared(
            100 * worst, dip.times(100), good=False, detail=detail, from_s=where.from_s, length_s=width_s
        )
    return compared(100 * kept, drop.times(100), good=True, detail=detail)


CRITERIA = (sustained, combined, stability, peer_outlier)
