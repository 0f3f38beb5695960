"""Does the card reach its clock, or say why not?"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rigproof.criteria.criterion import Criterion, Finding, Limit, NotApplicable, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.counters import EXPLAINS_LOW_CLOCK, NAMES, POWER_CAP, SET_BY_USER, names_of
from rigproof.criteria.evidence.devices import LOSSES, DeviceEvidence
from rigproof.criteria.evidence.fed import idled, remedy_if_waited
from rigproof.criteria.evidence.loads import FEWEST_SAMPLES, Load, Piece, PieceReadings, over_loads
from rigproof.criteria.evidence.power_limits import enforced_power_within, keeps_power_limit
from rigproof.criteria.evidence.sensors import (
    POWER,
    piece_readings,
    power_field,
    readings_by_piece,
    require_moving,
)
from rigproof.criteria.evidence.series import Floats
from rigproof.criteria.evidence.windows import Window, work_by_slice
from rigproof.profiles.kinds.stages import DUTIES
from rigproof.profiles.tables.limits import LIMITS
from rigproof.records.verdict import Outcome
from rigproof.simulation.faults.kinds import FED, TIMES, FaultKind

CLOCK_CAPPED_POWER_SHARE = LIMITS.key(lambda limits: limits.clock_capped_power_share)
WORKING_CLOCK_MHZ = LIMITS.key(lambda limits: limits.working_clock_mhz)
CLOCK_RATIO_SHARE = LIMITS.key(lambda limits: limits.clock_ratio_share)
CLOCK_UNKNOWN_SHARE = LIMITS.key(lambda limits: limits.clock_unknown_share)

MOST = 0.5  # "most samples": more than half of them
# Of what the printed peak allows at a clock: a higher rate means that the reported clock is wrong.
OVER_PEAK_SHARE = 1.10


@Criterion(
    "clock.ratio",
    title="clock ratio",
    unit="%",
    direction="at_least",
    limit="`limits.clock_ratio_share` of the boost clock that the SKU file states (for a card without one "
    "`limits.clock_unknown_share` of the highest SM clock that NVML reports). In the feeding stage "
    "`limits.working_clock_mhz`, if the rig states it",
    limits=(CLOCK_RATIO_SHARE, CLOCK_UNKNOWN_SHARE, WORKING_CLOCK_MHZ, CLOCK_CAPPED_POWER_SHARE),
    severity="reset",
    remedy="restart the machine; if the clock is meant to be low, state `limits.clock_ratio_share` for this "
    "card",
    unmeasured="too few readings of the SM clock under load, no clock to compare with, a low clock whose "
    "reasons cannot be read, a clock at which the card could not do what it did, or one of a card that had "
    "lost its worker",
    idling="fails",
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

    def at_work(found: Finding) -> bool:
        return not idled(device, found.from_s, found.length_s)

    return over_loads(device, DUTIES, lambda load: _in_load(device, load), at_work)


def _in_load(device: DeviceEvidence, load: Load) -> Finding:
    """The piece with the lowest unexplained clock; else the one with the lowest clock."""
    reference, whole_mhz = _reference(device, load), _whole_mhz(device)
    read = readings_by_piece(device, load, "sm_clock_mhz", "SM clock")
    # A median ignores drops that are shorter than half of the time, so a lower mean counts.
    clocks_mhz = np.minimum(read.medians, read.means)
    if not clocks_mhz.min() > 0:
        raise NotMeasured("the SM clock reads 0 MHz while work was measured, which is not possible")
    _require_agreeing_rates(device, load, read)
    if clocks_mhz.min() >= reference.value:
        share, limit = _shares(float(clocks_mhz.min()), reference, whole_mhz)
        return pass_or_fail(share, limit, good=True)
    worst = _worst(device, load, read, clocks_mhz, reference.value)
    return _finding(device, load, worst, reference, whole_mhz)


def _shares(clock_mhz: float, reference: Limit, whole_mhz: float) -> tuple[float, Limit]:
    """A clock and the least one, % of `whole_mhz`; equal clocks give equal shares."""
    return 100 / whole_mhz * clock_mhz, reference.times(100 / whole_mhz)


class _Explained(NamedTuple):
    """A piece with a low clock, and the reasons that the driver gives for it.

    `drawn_w` and `enforced_w` are known if one of them is the power cap; it then counts if `at_cap`, which is
    None if the driver reports no power limit. Some twenty are made for each device: a dataclass would take
    three times as long.
    """

    piece: Piece
    clock_mhz: float
    reasons: int
    drawn_w: float = math.nan
    enforced_w: float | None = None
    at_cap: bool | None = False

    @property
    def counted(self) -> int:
        """The reasons that explain it."""
        return self.reasons if self.at_cap or self.at_cap is None else self.reasons & ~POWER_CAP

    @property
    def outcome(self) -> Outcome:
        """FAIL if nothing explains it."""
        if self.at_cap is None or self.counted & SET_BY_USER:
            return Outcome.WARN
        return Outcome.PASS if self.counted else Outcome.FAIL

    @property
    def power(self) -> str:
        """The power that the card drew, in words; empty if it does not matter."""
        if not self.reasons & POWER_CAP:
            return ""
        if self.enforced_w is None:
            return ", which no power limit confirms: the driver reports none"
        return f", at {self.drawn_w:.0f} of {self.enforced_w:.0f} W"


def _finding(
    device: DeviceEvidence, load: Load, low: _Explained, reference: Limit, whole_mhz: float
) -> Finding:
    share, limit = _shares(low.clock_mhz, reference, whole_mhz)
    span = low.piece.span
    where = f"{low.clock_mhz:.0f} MHz of {whole_mhz:.0f} MHz"
    if low.outcome is Outcome.FAIL:
        return pass_or_fail(
            share,
            limit,
            good=False,
            detail=f"{where}{low.power}, and the driver gives no reason",
            remedy=remedy_if_waited(device) if load.duty == "fed" else "",
            from_s=span.from_s,
            length_s=low.piece.length_s,
        )
    if low.outcome is Outcome.PASS:
        excused = f"explained by {names_of(low.counted)}"
        return Finding(Outcome.PASS, share, limit, f"{where}{low.power}", excused=excused)
    detail = f"{where}, explained by {names_of(low.counted)}{low.power}"
    remedy = _set_on_purpose(device) if low.counted & SET_BY_USER and low.at_cap is not None else ""
    return Finding(low.outcome, share, limit, detail, remedy)


def _worst(
    device: DeviceEvidence, load: Load, read: PieceReadings, clocks_mhz: Floats, least_mhz: float
) -> _Explained:
    """A piece with a low clock that fails, else one that warns, else one that passes: the lowest of them.

    One that fails although the device did not idle comes first: an idle one lowers its clock.
    NotMeasured if the reasons cannot be read, or if nothing explains a piece after the worker was lost.
    """
    every = _main_reasons(device, load, least_mhz)
    power = _power_by_piece(device, load) if any(one and one & POWER_CAP for one in every) else None
    order = [one for one in np.argsort(clocks_mhz, kind="stable").tolist() if clocks_mhz[one] < least_mhz]
    drawn_w = [] if power is None else power[0].medians.tolist()
    if power is not None and (enforced_w := _cap_of_all(device, order, every, drawn_w)) is not None:
        lowest = order[0]
        reasons = every[lowest] or 0
        clock_mhz = float(clocks_mhz[lowest])
        return _Explained(read.pieces[lowest], clock_mhz, reasons, drawn_w[lowest], enforced_w, True)
    worst: dict[Outcome, _Explained] = {}
    failed: list[_Explained] = []
    for place in order:
        clock_mhz, reasons, piece = float(clocks_mhz[place]), every[place], read.pieces[place]
        if reasons is None:
            lacks = device.lacks_sensor("clock_event_reasons")
            raise (NotApplicable if lacks else NotMeasured)(
                "the clock is low under load, and the reasons for it cannot be read"
            )
        if reasons & POWER_CAP:
            assert power is not None
            average_w = float(power[1].medians[place])
            low_w, doubt_w = _drawn_while_low(device, piece, least_mhz)
            at_cap = _at_its_cap(device, load, piece, max(drawn_w[place], low_w), average_w, doubt_w=doubt_w)
            low = _Explained(piece, clock_mhz, reasons, *at_cap)
        else:
            low = _Explained(piece, clock_mhz, reasons)
        outcome = low.outcome
        if outcome is Outcome.FAIL:
            _require_worker(device, load, low, _whole_mhz(device))
            failed.append(low)
        worst.setdefault(outcome, low)
    busy = (one for one in failed if not idled(device, one.piece.span.from_s, one.piece.length_s))
    if failed:
        return next(busy, failed[0])
    return worst.get(Outcome.WARN) or worst[Outcome.PASS]


def _cap_of_all(
    device: DeviceEvidence, places: Sequence[int], reasons: Sequence[int | None], drawn_w: Sequence[float]
) -> float | None:
    """The power limit, W, if it never changed, and the power cap alone explains every piece; else None."""
    enforced_w = device.identity.power_limit_w
    if enforced_w is None or not keeps_power_limit(device) or not enforced_w > 0:
        return None
    least_w = device.limit(CLOCK_CAPPED_POWER_SHARE).value * enforced_w
    capped = all(reasons[one] == POWER_CAP and drawn_w[one] >= least_w for one in places)
    return enforced_w if capped else None


def _require_worker(device: DeviceEvidence, load: Load, low: _Explained, whole_mhz: float) -> None:
    to_s = low.piece.span.to_s
    lost = [one for one in device.events(*LOSSES) if one.stage == load.stage and one.t_s < to_s]
    if lost:
        raise NotMeasured(
            f"{low.clock_mhz:.0f} MHz of {whole_mhz:.0f} MHz{low.power}, but its worker was lost at "
            f"t={lost[0].t_s:.0f} s: a card without work lowers its clock"
        )


def _set_on_purpose(device: DeviceEvidence) -> str:
    smi = f"`nvidia-smi -i {device.identity.index}"
    return (
        f"undo it on {device.device.node} with {smi} -rgc` or `-rac`; if it is meant, state "
        "`limits.clock_ratio_share`"
    )


def _reference(device: DeviceEvidence, load: Load) -> Limit:
    """The clock that it must reach at least, MHz."""
    working = device.optional_limit(WORKING_CLOCK_MHZ)
    if load.duty == "fed" and working is not None:
        return working.times(1, f", {working.value:g} MHz")
    boost_mhz = None if device.device.sku is None else device.device.sku.boost_clock_mhz
    if boost_mhz is not None:
        share = device.limit(CLOCK_RATIO_SHARE)
        return Limit(boost_mhz * share.value, f"{share.source}, of the boost clock of {device.sku_file}")
    share = device.limit(CLOCK_UNKNOWN_SHARE)
    return Limit(_highest_mhz(device) * share.value, f"{share.source}, of NVML's highest clock")


def _whole_mhz(device: DeviceEvidence) -> float:
    boost_mhz = None if device.device.sku is None else device.device.sku.boost_clock_mhz
    return _highest_mhz(device) if boost_mhz is None else boost_mhz


def _highest_mhz(device: DeviceEvidence) -> float:
    highest_mhz = device.identity.sm_clock_max_mhz
    if highest_mhz is None or highest_mhz <= 0:
        never = device.device.sku is None and device.answers and highest_mhz is None
        raise (NotApplicable if never else NotMeasured)("NVML does not report the maximum SM clock")
    return highest_mhz


def _require_agreeing_rates(device: DeviceEvidence, load: Load, read: PieceReadings) -> None:
    """NotMeasured if the card did more than its SKU's printed peak allows at the mean clock."""
    sku = device.device.sku
    if sku is None or sku.boost_clock_mhz is None:
        return
    rounds = device.rounds(load.stage)
    together = len(rounds.processes(device.evidence.kinds))
    lowest_mhz = float(read.lowest.min())
    for precision, fastest in rounds.fastest.items():
        peak = getattr(sku.peak_tflops, precision, None)
        if peak is None:
            continue
        most_per_mhz = OVER_PEAK_SHARE * peak / sku.boost_clock_mhz
        if together * fastest <= most_per_mhz * lowest_mhz:
            continue  # not even all of them at once are too fast at any time
        for stretch, mean_mhz in _means_mhz(device, load):
            own = rounds.having(precision=precision)
            (work,) = work_by_slice(own.begins_s, own.t_s, own.rates, (stretch,))
            rate = work / stretch.length_s
            if rate > most_per_mhz * mean_mhz:
                raise NotMeasured(
                    f"the SM clock reads {mean_mhz:.0f} MHz from t={stretch.from_s:.0f} s on, at which the "
                    f"card cannot do the {rate:.0f} TFLOP/s of {precision} that it did"
                )


def _means_mhz(device: DeviceEvidence, load: Load) -> Iterator[tuple[Window, float]]:
    """The mean clock of each stretch; infinity with too few samples: then it contradicts nothing."""
    for piece in load.pieces:
        for stretch in piece.stretches:
            clocks = device.readings("sm_clock_mhz", stretch)
            yield stretch, clocks.mean if len(clocks) >= FEWEST_SAMPLES else math.inf


def _power_by_piece(device: DeviceEvidence, load: Load) -> tuple[PieceReadings, PieceReadings]:
    """The power in each piece, and the 1 s average."""
    field = power_field(device)
    require_moving(device, load.window, field, "power")  # a frozen one explains nothing
    return piece_readings(device, load, field), piece_readings(device, load, POWER[1])


def _drawn_while_low(device: DeviceEvidence, piece: Piece, least_mhz: float) -> tuple[float, float]:
    """The mean power, W, of the readings with a low clock, those that the cap explains; NaN if none has one.

    And two standard errors of it, W. The cap holds the mean, and instant power scatters: of the six readings
    that 3 Hz gives of two seconds, the median is often far below it, and the mean can be.
    """
    names = ("sm_clock_mhz", power_field(device))
    clocks_mhz, power_w = (
        np.concatenate([device.samples.column(name)[place] for place in piece.places]) for name in names
    )
    low_w = power_w[(clocks_mhz < least_mhz) & ~np.isnan(power_w)]
    if not len(low_w):
        return math.nan, 0.0
    return float(low_w.mean()), 2 * float(low_w.std()) / math.sqrt(len(low_w))


def _at_its_cap(
    device: DeviceEvidence, load: Load, piece: Piece, drawn_w: float, average_w: float, *, doubt_w: float
) -> tuple[float, float | None, bool | None]:
    """The power it drew, its enforced limit, and whether it drew that; None if no power limit is reported.

    `doubt_w`: by how much it may have drawn more than its readings say.

    The cap holds the mean of about a second. In a short piece the instant power may be below it at most
    moments: on an H200 it was 536 to 821 W while the average was 690 W.
    """
    if math.isnan(drawn_w):
        raise NotMeasured("the clock is low under load, and the power that would explain it was not read")
    enforced_w = enforced_power_within(device, piece.span)
    if enforced_w is None:
        return drawn_w, None, None
    least_w = device.limit(CLOCK_CAPPED_POWER_SHARE).value * enforced_w
    if drawn_w < least_w and not math.isnan(average_w):
        require_moving(device, load.window, POWER[1], "power (1 s average)")
        drawn_w = max(drawn_w, average_w)
    return drawn_w, enforced_w, drawn_w + doubt_w >= least_w


def _main_reasons(device: DeviceEvidence, load: Load, least_mhz: float) -> list[int | None]:
    """For each piece the explaining bits that most samples of a low clock have, taken together.

    0 if most have none; None if they were not read in most samples.
    """
    clocks = piece_readings(device, load, "sm_clock_mhz")
    reasons = piece_readings(device, load, "clock_event_reasons")
    return [_main_reason(*both, least_mhz) for both in zip(clocks.parts, reasons.parts, strict=True)]


def _main_reason(clocks_mhz: Floats, reasons: Floats, least_mhz: float) -> int | None:
    known = ~np.isnan(reasons)
    if known.sum() <= MOST * len(reasons):
        return None
    low = reasons[known & (clocks_mhz < least_mhz)].astype(np.int64)
    # Each bit by itself: a slowdown that flickered does not explain a clock that was low all the time.
    explaining = (bit for bit in NAMES if bit & EXPLAINS_LOW_CLOCK)
    return sum(bit for bit in explaining if np.count_nonzero(low & bit) > MOST * len(low))


FAULTS = (
    FaultKind(
        "clock-stuck",
        "the SM clock stays low, and the driver gives no reason; to= is in MHz",
        ("clock.ratio",),
        keys=(*TIMES, "to"),
        duties=DUTIES,
    ),
    FaultKind(
        "clock-locked",
        "a user set the SM clock (reason 0x2); to= is in MHz",
        ("clock.ratio",),
        ends="warns",
        keys=(*TIMES, "to"),
        duties=DUTIES,
    ),
    FaultKind(
        "clock-drops-idle",
        "the card lowers its clock while it waits for rewards",
        ("clock.ratio",),
        keys=("stage", "to"),
        duties=FED,
    ),
)
