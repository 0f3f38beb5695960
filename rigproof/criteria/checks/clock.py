"""Does the card reach its clock, or say why not?"""

import math
from collections import Counter
from statistics import fmean, median

from rigproof.criteria.criterion import Finding, Limit, NotMeasured, compared, criterion
from rigproof.criteria.effects import POWER_UNKNOWN, UNSAMPLED, Also
from rigproof.criteria.evidence.fed import fed
from rigproof.criteria.evidence.loads import FEWEST_SAMPLES, Load, Piece, over_loads
from rigproof.criteria.evidence.readings import Readings
from rigproof.criteria.evidence.reasons import (
    EXPLAINS_LOW_CLOCK,
    NAMES,
    POWER_CAP,
    SET_BY_USER,
    names_of,
)
from rigproof.criteria.evidence.sensors import (
    POWER,
    moving_readings,
    piece_readings,
    power_field,
    readings_by_piece,
)
from rigproof.criteria.evidence.subjects import DeviceEvidence
from rigproof.criteria.evidence.tasks import LOSSES
from rigproof.criteria.evidence.windows import work_by_slice
from rigproof.profiles.kinds.stages import DUTIES
from rigproof.records.verdict import Outcome
from rigproof.simulation.faults.kinds import FED, TIMES, FaultKind

MOST = 0.5  # "most samples": more than half of them
# Of what the printed peak allows at a clock: a higher rate means that the reported clock is wrong.
OVER_PEAK_SHARE = 1.10


@criterion(
    "clock.ratio",
    scope="device",
    unit="%",
    limit="`limits.clock_ratio_share` of the boost clock that the SKU file states; for a card without one "
    "`limits.clock_unknown_share` of the highest SM clock that NVML reports. In the feeding stage "
    "`limits.working_clock_mhz`, if the rig states it",
    remedy="restart the machine and check whether the clock recovers; for a card that is undervolted or "
    "deliberately slowed down, state `limits.clock_ratio_share` under its [[nodes.gpus]]",
    unmeasured="too few readings of the SM clock under load, no clock to compare with, a low clock whose "
    "reasons cannot be read, a clock at which the card could not do what it did, or one of a card that had "
    "lost its worker",
    also=Also(
        fails=("gpu-idle",),
        unmeasured=(
            *UNSAMPLED,
            *POWER_UNKNOWN,
            "sensor-missing:field=sm_clock",
            "sensor-missing:field=clock_event_reasons",
            "sensor-impossible:field=sm_clock",
            "ecc-uncorrected",
            "cpu-fallback",
            "foreign-memory",
        ),
    ),
    applies_to_cpu=False,
    needs=("continuous",),
    duties=DUTIES,
)
def ratio(device: DeviceEvidence) -> Finding:
    """Wherever work is measured, the SM clock is close to the one that the card is made for.

    Median and mean are judged in each stretch of measured work, short ones together and long ones in
    quarters. A lower clock passes if the driver explains most of its low readings there: by a slowdown that
    thermal.throttle judges, or by the power cap, if the card really drew `limits.clock_capped_power_share` of
    its limit. A clock set by a user warns. A fed card's clock also counts while it waits.
    """
    return over_loads(device, DUTIES, lambda load: _in_load(device, load))


def _in_load(device: DeviceEvidence, load: Load) -> Finding:
    """The piece with the lowest unexplained clock; else the one with the lowest clock."""
    reference = _reference(device, load)
    pieces = readings_by_piece(device, load, "sm_clock_mhz", "SM clock")
    _require_agreeing_rates(device, load)
    found = [
        _in_piece(device, load, piece, pairs, reference)
        for piece, pairs in sorted(pieces, key=lambda one: _clock_mhz(one[1]))
    ]
    order = (Outcome.FAIL, Outcome.WARN, Outcome.PASS)
    return min(found, key=lambda one: order.index(one.outcome))


def _clock_mhz(pairs: Readings) -> float:
    """The median, or the mean if that is lower: a median ignores drops shorter than half of the time."""
    return min(float(median(pairs.values)), fmean(pairs.values))


def _in_piece(device: DeviceEvidence, load: Load, piece: Piece, pairs: Readings, reference: Limit) -> Finding:
    """`reference`: the least MHz; the value is reported in % of the clock that it is a share of."""
    whole_mhz, clock_mhz = _whole_mhz(device), _clock_mhz(pairs)
    limit = reference.times(100 / whole_mhz)
    share = 100 * clock_mhz / whole_mhz
    if clock_mhz >= reference.value:
        return compared(share, limit, good=True)
    where = f"{clock_mhz:.0f} MHz of {whole_mhz:.0f} MHz"
    reasons = _main_reasons(device, piece, reference.value)
    drawn = ""
    if reasons & POWER_CAP:
        power, excused = _at_its_cap(device, load, piece)
        drawn = f", {power}"
        if excused is None:
            return Finding(Outcome.WARN, share, limit, f"{where}, explained by {names_of(reasons)}{drawn}")
        reasons = reasons if excused else reasons & ~POWER_CAP
    explained = f"{where}, explained by {names_of(reasons)}{drawn}"
    if reasons & SET_BY_USER:
        return Finding(Outcome.WARN, share, limit, explained, _set_on_purpose(device))
    if reasons:
        return compared(share, limit, good=True, detail=explained)
    where += drawn
    lost = [one for one in device.events(*LOSSES) if one.stage == load.stage and one.t_s < piece.span.to_s]
    if lost:
        raise NotMeasured(
            f"{where}, but its worker was lost at t={lost[0].t_s:.0f} s: a card without work lowers its clock"
        )
    return compared(
        share,
        limit,
        good=False,
        detail=f"{where}, and no reason reported by the driver explains it",
        remedy=_waited(device) if load.duty == "fed" else "",
        from_s=piece.span.from_s,
        length_s=piece.length_s,
    )


def _set_on_purpose(device: DeviceEvidence) -> str:
    smi = f"`nvidia-smi -i {device.identity.index}"
    return (
        f"undo it on {device.device.node} with {smi} -rgc` (locked clocks) or {smi} -rac` (application "
        "clocks), or state `limits.clock_ratio_share` of this GPU as intended"
    )


def _waited(device: DeviceEvidence) -> str:
    """The remedy for a fed card that waited too long; empty if its clock was low for another reason."""
    most = device.optional_limit("idle_share")
    if most is None or fed(device).idle_share <= most.value:
        return ""
    return "see feeding.idle_gaps: a card that waits for rewards lowers its clock"


def _reference(device: DeviceEvidence, load: Load) -> Limit:
    """The least clock, MHz."""
    working = device.optional_limit("working_clock_mhz")
    if load.duty == "fed" and working is not None:
        return working.times(1, f", {working.value:g} MHz")
    boost_mhz = None if device.device.sku is None else device.device.sku.boost_clock_mhz
    if boost_mhz is not None:
        share = device.limit("clock_ratio_share")
        return Limit(boost_mhz * share.value, f"{share.source}, of the boost clock of {device.sku_file}")
    share = device.limit("clock_unknown_share")
    return Limit(_highest_mhz(device) * share.value, f"{share.source}, of NVML's highest clock")


def _whole_mhz(device: DeviceEvidence) -> float:
    boost_mhz = None if device.device.sku is None else device.device.sku.boost_clock_mhz
    return _highest_mhz(device) if boost_mhz is None else boost_mhz


def _highest_mhz(device: DeviceEvidence) -> float:
    highest_mhz = device.identity.sm_clock_max_mhz
    if highest_mhz is None or highest_mhz <= 0:
        raise NotMeasured("NVML does not report the maximum SM clock")
    return highest_mhz


def _require_agreeing_rates(device: DeviceEvidence, load: Load) -> None:
    """NotMeasured if the card did more than its SKU's printed peak allows at the mean clock."""
    sku = device.device.sku
    if sku is None or sku.boost_clock_mhz is None:
        return
    rounds = device.rounds(load.stage)
    together = len(set(rounds.process_ids(device.evidence.kinds).tolist()))
    means_mhz = [
        (stretch, _mean_mhz(device, places))
        for piece in load.pieces
        for stretch, places in zip(piece.stretches, piece.places, strict=True)
    ]
    for precision, fastest in rounds.fastest().items():
        peak = getattr(sku.peak_tflops, precision, None)
        if peak is None:
            continue
        most_per_mhz = OVER_PEAK_SHARE * peak / sku.boost_clock_mhz
        for stretch, mean_mhz in means_mhz:
            if together * fastest <= most_per_mhz * mean_mhz:
                continue  # not even all of them at once are too fast: no need to add them up
            own = rounds.only(rounds.labelled("precision", precision))
            rate = work_by_slice(own, (stretch,))[0] / stretch.length_s
            if rate > most_per_mhz * mean_mhz:
                raise NotMeasured(
                    f"the SM clock reads {mean_mhz:.0f} MHz from t={stretch.from_s:.0f} s on, at which the "
                    f"card cannot do the {rate:.0f} TFLOP/s of {precision} that it did"
                )


def _mean_mhz(device: DeviceEvidence, places: slice) -> float:
    """Infinity with too few samples: then it contradicts nothing."""
    clocks = device.series.readings("sm_clock_mhz", places).values
    return fmean(clocks) if len(clocks) >= FEWEST_SAMPLES else math.inf


def _at_its_cap(device: DeviceEvidence, load: Load, piece: Piece) -> tuple[str, bool | None]:
    """What it drew, in words, and whether that is its cap; None if the driver reports no power limit.

    The cap holds the mean of about a second. In a short piece the instant power may be below it at most
    moments: on an H200 it was 536 to 821 W while the average was 690 W.
    """
    field = power_field(device)
    moving_readings(device, load.window, field, "power")  # a frozen one explains nothing
    power_w = piece_readings(device, piece, field).values
    if not power_w:
        raise NotMeasured("the clock is low under load, and the power that would explain it was not read")
    enforced_w = device.enforced_power_within(piece.span)
    if enforced_w is None:
        return "which no power limit confirms: the driver reports none", None
    drawn_w, least_w = median(power_w), device.limit("clock_capped_power_share").value * enforced_w
    averages_w = piece_readings(device, piece, POWER[1]).values
    if drawn_w < least_w and averages_w:
        moving_readings(device, load.window, POWER[1], "power (1 s average)")
        drawn_w = max(drawn_w, median(averages_w))
    return f"at {drawn_w:.0f} of {enforced_w:.0f} W", drawn_w >= least_w


def _main_reasons(device: DeviceEvidence, piece: Piece, least_mhz: float) -> int:
    """The explaining bits that most samples of a low clock have, taken together; 0 if most have none."""
    samples = [
        one
        for places in piece.places
        for one in device.samples[places].fields("sm_clock_mhz", "clock_event_reasons")
    ]
    if sum(1 for _, bits in samples if bits is not None) <= MOST * len(samples):
        raise NotMeasured("the clock is low under load, and the reasons for it cannot be read")
    known = Counter(
        bits for clock_mhz, bits in samples if None not in (clock_mhz, bits) and clock_mhz < least_mhz
    )
    # Each bit by itself: a slowdown that flickered does not explain a clock that was low all the time.
    explaining = (bit for bit in NAMES if bit & EXPLAINS_LOW_CLOCK)
    return sum(bit for bit in explaining if _samples_with(bit, known) > MOST * known.total())


def _samples_with(bit: int, samples: Counter[int]) -> int:
    return sum(number for bits, number in samples.items() if bits & bit)


FAULTS = (
    FaultKind(
        "clock-stuck",
        "gpu",
        "the SM clock stays low, and the driver gives no reason; to= is in MHz",
        ("clock.ratio",),
        keys=(*TIMES, "to"),
        duties=DUTIES,
        why="At half its clock a card has half its rate.",
    ),
    FaultKind(
        "clock-locked",
        "gpu",
        "a user set the SM clock (reason 0x2); to= is in MHz",
        ("clock.ratio",),
        ends="warns",
        keys=(*TIMES, "to"),
        duties=DUTIES,
        why="The setting is intended, but at half its clock the card is slow all the same.",
    ),
    FaultKind(
        "clock-drops-idle",
        "gpu",
        "the card lowers its clock while it waits for rewards",
        ("clock.ratio",),
        keys=("stage", "to"),
        duties=FED,
    ),
)
