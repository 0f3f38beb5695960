"""How fast is each device under a continuous load, and does its rate stay constant?"""

from collections.abc import Mapping
from itertools import islice
from statistics import median

from rigproof.criteria.criterion import Criterion, Finding, Limit, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.floors import FLOOR_LIMITS, FLOORS, SLOW, Measured, against
from rigproof.criteria.evidence.launches import LAUNCH_MS
from rigproof.criteria.evidence.rates import precision_rate, settled, steady, sustained_rate
from rigproof.criteria.evidence.repeated import FIFTH, QUARTER, deepest_falls
from rigproof.criteria.evidence.slowed import slowed_by
from rigproof.criteria.evidence.works import beside_itself
from rigproof.profiles.kinds.stages import DUTIES, own_share
from rigproof.profiles.tables.limits import LIMITS
from rigproof.records.verdict import Outcome, figure
from rigproof.stages.sustained.peers import peer_outlier
from rigproof.stages.sustained.stage import FIGURE, KIND
from rigproof.stages.tables import without_tables

COMBINED_FLOOR_TFLOPS = KIND.key(lambda own: own.combined_floor_tflops)
BEST_QUARTER_SHARE = LIMITS.key(lambda limits: limits.best_quarter_share)
SLOW_FIFTH_SHARE = LIMITS.key(lambda limits: limits.slow_fifth_share)
STABILITY_DROP_SHARE = KIND.key(lambda own: own.stability_drop_share)
STABILITY_WORST_WINDOW_SHARE = LIMITS.key(lambda limits: limits.stability_worst_window_share)
BEST_WINDOW_SHARE = KIND.key(lambda own: own.best_window_share)
FLOOR_SHARING_SHARE = LIMITS.key(lambda limits: limits.floor_sharing_share)

STABILITY_WINDOW_S = 5.0
SHORTEST_WINDOW_S = 1.0  # shorter windows hold only a few rounds, which is noise
FEWEST_WINDOWS = 4
MOST_NAMED = 16


@Criterion(
    "throughput.sustained",
    title="sustained rate",
    key_figure=True,
    unit="TFLOP/s",
    direction="at_least",
    limit=FLOORS,
    limits=FLOOR_LIMITS,
    severity="isolate",
    remedy=SLOW,
    unmeasured="the stage was aborted, or this device did no verified round",
    idling="fails",
    figures=(FIGURE,),
    stages=("sustained",),
    rate=True,
    steady="stability_drop_share",
    caused_by_others=slowed_by,
)
def sustained(device: DeviceEvidence) -> Finding:
    """Verified 16-bit work of all the device's workers, over the loaded time of the sustained stage."""
    finding = against(device, sustained_rate(device).tflops, _measured(device))
    return finding._replace(over=(settled(device)[0][:2],))


def _measured(device: DeviceEvidence) -> Measured:
    _, verified = settled(device)
    precision, workers = sustained_rate(device).precision, len(device.planned_workers)
    return Measured.of(device, FIGURE, precision, workers=workers, rounds=verified.measured)


@Criterion(
    "throughput.combined",
    title="combined rate",
    scope="rig",
    unit="TFLOP/s",
    direction="at_least",
    limit="`stages.sustained.combined_floor_tflops`; else none",
    limits=(COMBINED_FLOOR_TFLOPS,),
    severity="isolate",
    remedy="find out why a device does less than its part, which is after `of`; if each is as fast as its "
    "model can be, lower the floor",
    unmeasured="a promised device has no sustained rate, without which the sum would look low",
    idling="fails",
    sum_of="throughput.sustained",
    stages=("sustained",),
    rate=True,
    caused_by_others=slowed_by,
)
def combined(rig: Evidence) -> Finding:
    """The sustained rates of all promised devices together."""
    rates: dict[str, float] = {}
    missing = []
    for device in rig.devices:
        try:
            rates[device.subject] = sustained_rate(device).tflops
        except NotMeasured:
            missing.append(device.subject)
    if missing or not rates:
        raise NotMeasured(f"no sustained rate of {', '.join(missing) or 'any device'}")
    floor, file = rig.loaded.stated(COMBINED_FLOOR_TFLOPS)
    if floor is None:
        return Finding(Outcome.NO_LIMIT, sum(rates.values()), detail=_in_words(rates, {}))
    good = sum(rates.values()) >= floor
    detail = _in_words(rates, {} if good else _parts(rig, floor))
    spans = [settled(device)[0][:2] for device in rig.devices]
    return pass_or_fail(sum(rates.values()), Limit(floor, file), good=good, detail=detail, over=spans)


def _in_words(rates: Mapping[str, float], parts: Mapping[str, float]) -> str:
    """`pc1/gpu0 586.3 of 614.5 + pc1/gpu1 652.1`: those that lack some of their part come first, with it."""
    lacking = {subject: part for subject, part in parts.items() if rates[subject] < part}
    order = sorted(rates, key=lambda subject: subject not in lacking)
    each = (
        f"{one} {rates[one]:.1f}" + (f" of {lacking[one]:.1f}" if one in lacking else "") for one in order
    )
    return " + ".join(islice(each, MOST_NAMED))


def _parts(rig: Evidence, floor: float) -> dict[str, float]:
    """Each device's part of the floor, by what is printed of its model; none if one has no SKU file."""
    printed: dict[str, float] = {}
    for device in rig.devices:
        sku, precision = device.device.sku, sustained_rate(device).precision
        peak = None if sku is None else getattr(sku.peak_tflops, precision, None)
        if peak is None:
            return {}
        printed[device.subject] = peak
    return {subject: floor * peak / sum(printed.values()) for subject, peak in printed.items()}


@Criterion(
    "throughput.stability",
    title="rate stability",
    unit="%",
    direction="at_least",
    limit="`stages.sustained.stability_drop_share` (median window of the last quarter, relative to the "
    "first), `limits.stability_worst_window_share` (worst window, relative to the median), and "
    "`stages.sustained.best_window_share` (worst window, relative to the median of the best quarter of all "
    "windows, or to the card's own products of the same precision and size alone (with several workers "
    "`limits.floor_sharing_share` of them), whichever is higher). The "
    "settled load is divided into windows of about 5 s, at least four; time in which the whole host stood "
    "still is left out. In every other stage each quarter of any work that the card repeats for a second and "
    "more, and of all shorter work together, must reach `limits.best_quarter_share` of the best quarter, "
    "and all but a fifth of its rounds `limits.slow_fifth_share` of what the fastest fifth reaches; and in "
    "stages without a figure of their own the fastest work `own_share` of what follows from its other stages "
    "(docs/judged.md); the first 2 s after a break, before the power cap holds, are not counted, nor steps "
    "whose pace the host sets (`stages.training.host_paced_share`), nor products that it launches slowly "
    "(`limits.launch_ms`). "
    "None for the CPU as the device, which others also use",
    limits=(
        STABILITY_DROP_SHARE,
        STABILITY_WORST_WINDOW_SHARE,
        BEST_WINDOW_SHARE,
        FLOOR_SHARING_SHARE,
        BEST_QUARTER_SHARE,
        SLOW_FIFTH_SHARE,
        LAUNCH_MS,
    ),
    severity="reseat",
    remedy="look at temperature, clock and power over the stage in the report: heat and a weak power "
    "supply show as a drop",
    unmeasured="less than 4 s of settled load",
    idling="fails",
    stages=("sustained",),
    duties=DUTIES,
    caused_by_others=slowed_by,
)
def stability(device: DeviceEvidence) -> Finding:
    """The rate at the end of the sustained stage equals that at its start, and no window is far below.

    Nor does the rate of repeated work fall inside another stage, nor is it low there from the beginning to
    the end: whatever the card, it is its own reference.
    """
    slower = None if device.is_cpu else _fallen(device) or _slow_throughout(device)
    if slower is not None:
        return slower
    window, _ = settled(device)
    load = steady(device)
    # Without a remainder: a card may slow down in the last seconds.
    rates = load.rates(max(FEWEST_WINDOWS, int((load.to_s - load.from_s) / STABILITY_WINDOW_S)))
    number = len(rates)
    width_s = window.length_s / number if number else 0.0  # its host stood still throughout
    if width_s < SHORTEST_WINDOW_S:
        raise NotMeasured(
            f"{window.length_s:.1f} s of settled load do not hold {FEWEST_WINDOWS} windows of 1 s"
        )
    quarter = number // 4
    middle = median(rates)
    first, last = median(rates[:quarter]), median(rates[-quarter:])
    if middle <= 0 or first <= 0:
        raise NotMeasured("the rate of most windows is zero; there is nothing to compare")
    end_share, worst = 100 * last / first, 100 * min(rates) / middle
    if device.is_cpu:
        detail = "the CPU's rate depends on what else runs on it"
        return Finding(Outcome.NO_LIMIT, end_share, detail=detail)
    drop = device.limit(STABILITY_DROP_SHARE).times(100)
    dip = device.limit(STABILITY_WORST_WINDOW_SHARE).times(100)
    if end_share < drop.value:
        detail = f"{last:.1f} TFLOP/s in the last quarter, {first:.1f} in the first"
        from_s = window.from_s + (number - quarter) * width_s
        return pass_or_fail(end_share, drop, good=False, detail=detail, from_s=from_s)
    detail = f"worst window {min(rates):.1f} TFLOP/s, median {middle:.1f}"
    low = {"from_s": window.from_s + rates.index(min(rates)) * width_s, "length_s": width_s}
    if worst < dip.value:
        return pass_or_fail(worst, dip, good=False, detail=detail, **low)
    least = device.optional_limit(BEST_WINDOW_SHARE)
    if least is not None:
        best, which = max((median(sorted(rates)[-quarter:]), "best ones"), _alone(device))
        if min(rates) < least.value * best:
            detail = f"worst window {min(rates):.1f} TFLOP/s, {which} {best:.1f}"
            return pass_or_fail(100 * min(rates) / best, least.times(100), good=False, detail=detail, **low)
    kinds = device.evidence.kinds
    for stage in device.evidence.stages_with(*DUTIES):
        if kinds[stage].held_against:  # which nothing else judges
            device.possible(stage)
    return pass_or_fail(end_share, drop, good=True, detail=detail)


def _alone(device: DeviceEvidence) -> tuple[float, str]:
    """TFLOP/s of the same products in the stage that measures each precision alone; 0 if there are none.

    A load that was slow from its first second on shows by it. A card without a power limit, such as a
    laptop's, shares its power with the CPU, which works only beside the continuous load.
    """
    precision, (_, verified) = sustained_rate(device).precision, settled(device)
    if device.identity.power_limit_w is None:
        return 0.0, ""
    try:
        alone = precision_rate(device, precision)
    except NotMeasured:  # the criterion of that stage reports it
        return 0.0, ""
    if alone is None or alone.rounds.distinct_labels("size") != verified.measured.distinct_labels("size"):
        return 0.0, ""
    sharing = device.optional_limit(FLOOR_SHARING_SHARE) if len(device.planned_workers) > 1 else None
    return alone.tflops * (sharing.value if sharing else 1.0), f"{precision} products alone"


def _fallen(device: DeviceEvidence) -> Finding | None:
    """The failure of a rate that fell inside a stage other than the continuous one."""
    falls, keys = deepest_falls(device), {QUARTER: BEST_QUARTER_SHARE, FIFTH: SLOW_FIFTH_SHARE}
    found = [
        (fall, limit)
        for part, fall in falls.items()
        if (limit := device.optional_limit(keys[part])) is not None and fall.share < limit.value
    ]
    if not found:
        return None
    fall, limit = min(found, key=lambda one: one[0].share / one[1].value)
    device.possible(fall.stage)
    best = figure(fall.best, f"{fall.unit}/s") if fall.unit else f"{fall.best:.2f} of the mean rate"
    detail = f"{figure(fall.rate)} of {best} in {fall.part} of {fall.stage} ({fall.work})"
    span = {"from_s": fall.from_s, "length_s": fall.length_s, "over": fall.over}
    return pass_or_fail(100 * fall.share, limit.times(100), good=False, detail=detail, **span)


def _slow_throughout(device: DeviceEvidence) -> Finding | None:
    """The failure of a stage that is slow from its beginning to its end."""
    shares = ((one, device.optional_limit(own_share(one.stage))) for one in beside_itself(device))
    found = [(one, limit) for one, limit in shares if limit is not None and one.share < limit.value]
    if not found:
        return None
    slowest, limit = min(found, key=lambda one: one[0].share / one[1].value)
    detail = f"{slowest.stage}, against {slowest.of}"
    span = device.evidence.whole_window(slowest.stage)
    when = {"from_s": span.from_s, "length_s": span.length_s}
    return pass_or_fail(100 * slowest.share, limit.times(100), good=False, detail=detail, **when)


CRITERIA = (sustained, combined, stability, peer_outlier)

tables = without_tables
