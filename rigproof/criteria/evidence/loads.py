"""What a device did under load, stage by stage, for checks that belong to no single stage.

Such a check names the duties that it judges and gets a `Load` for each stage of the level with one of them.
Clock, power, activity and the link are judged over a load's `pieces`: all the time in which the device worked
without a break, warm-up included, once its sensors had followed. What must never happen is judged over the
stage's `window`. What is left out of the window and why: docs/judged.md.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rigproof.criteria.criterion import Finding, NotMeasured
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.pieces import Of, Piece, PieceTable
from rigproof.criteria.evidence.readings import Floats
from rigproof.criteria.evidence.rounds import Mask
from rigproof.criteria.evidence.spans import JOINING_S, Ids, unbroken
from rigproof.criteria.evidence.stage_rounds import StageRounds
from rigproof.criteria.evidence.windows import Window, slice_edges
from rigproof.profiles.kinds.stages import DUTIES, Duty
from rigproof.records.verdict import Outcome, count_of

BOOST_S = 2.0  # from a device's first round in a stage: until its clock has come down to the power cap
SHORTEST_S = 1.0  # of a load without a break: a shorter one is over before the sensors follow
# Long stretches are judged in quarters, so that a fault that begins late is not averaged away: a continuous
# load of any length, any other stretch if a quarter of it has two values of NVML's slowest sensor.
QUARTERS, QUARTERED_S = 4, 8.0
FEWEST_SAMPLES = 5  # of a piece: with fewer, two samples decide the median; it is joined with its neighbours


@dataclass(frozen=True, slots=True)
class Load:
    """One device in one stage: the stage's window, and the pieces in which its work is judged."""

    stage: str
    duty: Duty
    window: Window
    pieces: tuple[Piece, ...]

    @property
    def samples(self) -> int:
        """The number of samples in all its pieces."""
        return sum(piece.samples for piece in self.pieces)

    @property
    def stretches(self) -> tuple[Window, ...]:
        """The stretches of all its pieces."""
        return tuple(stretch for piece in self.pieces for stretch in piece.stretches)

    @property
    def measured_s(self) -> float:
        """Seconds of judged work in all its pieces."""
        return sum(piece.length_s for piece in self.pieces)

    def pieces_of(self, shortest_s: float) -> tuple[Piece, ...]:
        """Its pieces, with neighbours joined until each is at least that long."""
        if not shortest_s:
            return self.pieces
        return _joined(self.pieces, [one.length_s for one in self.pieces], shortest_s)


def load_of(device: DeviceEvidence, stage: str) -> Load:
    """What a device did in a stage. NotMeasured if the stage was aborted, or the device measured nothing."""

    def made() -> Load:
        window = device.evidence.complete_window(stage)
        if not len(device.rounds(stage).measured):
            cause = device.cause()
            raise NotMeasured(f"no round of {stage} was measured" + (f": {cause}" if cause else ""))
        pieces = device.block.kept("pieces", lambda: _pieces(device)).get((device.subject, stage))
        if pieces is None:
            raise NotMeasured(f"{stage} was never measured for {SHORTEST_S:g} s without a break")
        return Load(stage, device.evidence.kinds[stage].duty, window, pieces)

    return device.kept(("load", stage), made)


def loads_of(device: DeviceEvidence) -> list[Load]:
    """What a device did in all stages in which it measured anything."""
    found = []
    for stage in device.evidence.stages_with(*DUTIES):
        try:
            found.append(load_of(device, stage))
        except NotMeasured:  # a criterion that needs this load reports it
            continue
    return found


def piece_table(device: DeviceEvidence, shortest_s: float) -> PieceTable:
    """The pieces of all loads, each at least that long, of the device and those judged with it."""

    def made() -> PieceTable:
        devices = device.block.devices
        pieces = {
            (one.subject, load.stage): load.pieces_of(shortest_s) for one in devices for load in loads_of(one)
        }
        return PieceTable({one.subject: one.series for one in devices}, pieces)

    return device.block.kept(("pieces", shortest_s), made)


def _always(_: Finding) -> bool:
    return True


def over_loads(
    device: DeviceEvidence,
    duties: Collection[Duty],
    find: Callable[[Load], Finding],
    weighty: Callable[[Finding], bool] = _always,
) -> Finding:
    """As `over_stages`, for the device's load in each. With too few samples it may pass, but not fail."""

    def in_stage(stage: str) -> Finding:
        load = load_of(device, stage)
        finding = find(load)
        if finding.outcome is Outcome.FAIL and load.samples < FEWEST_SAMPLES:
            raise NotMeasured(
                f"only {count_of(load.samples, 'samples')} while {stage} was measured, too few to fail a "
                "card: raise `sampling.rate_hz`"
            )
        return finding

    return over_stages(device, duties, in_stage, weighty)


def over_stages(
    device: DeviceEvidence,
    duties: Collection[Duty],
    find: Callable[[str], Finding],
    weighty: Callable[[Finding], bool] = _always,
) -> Finding:
    """The worst finding of all stages with these duties; the closest to its limit if all are good.

    A failure in one stage counts even if another could not be measured; otherwise all must be measured. Of
    several failures the worst one that is `weighty` is reported, if one is.
    """
    found: list[tuple[Finding, str]] = []
    unmeasured: list[NotMeasured] = []
    stages = device.evidence.stages_with(*duties)
    for stage in stages:
        try:
            finding = find(stage)
        except NotMeasured as reason:
            # A sensor may be distrusted for its readings in another stage.
            named = any(one in reason.reason for one in device.evidence.stages)
            where = "" if named else f"{stage}: "
            unmeasured.append(reason.worded(f"{where}{reason.reason}"))
        else:
            found.append((finding, stage))
    order = (Outcome.FAIL, Outcome.WARN, Outcome.NO_LIMIT, Outcome.PASS)

    def rank(one: tuple[Finding, str]) -> tuple[int, bool, float]:
        failed = one[0].outcome is Outcome.FAIL
        return order.index(one[0].outcome), failed and not weighty(one[0]), _margin(one[0])

    worst = min(found, key=rank, default=None)
    if unmeasured and (worst is None or worst[0].outcome is not Outcome.FAIL):
        raise next((one for one in unmeasured if one.outcome is Outcome.NOT_MEASURED), unmeasured[0])
    if worst is None:
        raise NotMeasured("the level has no stage in which this is judged")
    finding, stage = worst
    where = f"in the {stage} stage" if len(stages) > 1 and stage not in finding.detail else ""
    return finding._replace(detail=", ".join(filter(None, (finding.detail, where))))


def _margin(finding: Finding) -> float:
    """How far from its limit, as a share of it, negative beyond it; infinity if nothing is compared."""
    if finding.measured is None or finding.limit is None:
        return float("inf")
    margin = abs(finding.measured - finding.limit.value) / (abs(finding.limit.value) or 1.0)
    return -margin if finding.outcome is Outcome.FAIL else margin


def _pieces(device: DeviceEvidence) -> dict[Of, tuple[Piece, ...]]:
    """The pieces of each device of the block and each stage that was measured for SHORTEST_S."""
    of_each, devices = list(device.stage_rounds.numbers), device.block.devices
    groups, from_s, to_s = _slices(device)
    stages = len(of_each) // len(devices)
    bounds = np.searchsorted(groups, stages * np.arange(len(devices) + 1)).tolist()
    own = [(one.series.times_s, slice(*both)) for one, both in zip(devices, pairwise(bounds), strict=True)]
    begins = np.concatenate([times_s.searchsorted(from_s[rows]) for times_s, rows in own])
    ends = np.concatenate([times_s.searchsorted(to_s[rows], "right") for times_s, rows in own])
    stretches = map(Window, from_s.tolist(), to_s.tolist())
    places = map(slice, begins.tolist(), ends.tolist())
    pieces = [Piece((stretch,), (place,)) for stretch, place in zip(stretches, places, strict=True)]
    bounds = np.searchsorted(groups, np.arange(len(of_each) + 1)).tolist()
    found = {}
    for of, (first, end) in zip(of_each, pairwise(bounds), strict=True):
        if end > first:
            long = _joined(pieces[first:end], [one.length_s for one in pieces[first:end]], SHORTEST_S)
            found[of] = _joined(long, [one.samples for one in long], FEWEST_SAMPLES)
    return found


def _slices(device: DeviceEvidence) -> tuple[Ids, Floats, Floats]:
    """The group (`StageRounds`), begin and end of all parts of the block's loads, in order.

    A load is any work without a break. It counts from BOOST_S after the device's first round in the stage,
    and one that begins with warm-up from SHORTEST_S after that or its first measured round. It is cut where
    the work changes. A fed device counts as working from its first measured round to its last: its waiting
    is what is judged.
    """
    rounds = device.stage_rounds
    fed, continuous = (_with_duty(device, duty) for duty in ("fed", "continuous"))
    measured = _measured(rounds)
    counted = measured | ~fed[rounds.groups]
    loads, from_s, to_s = _unbroken(device, counted, by_work=False)
    rows, groups = rounds.rows[measured], rounds.groups[measured]
    measured_s = np.full(len(loads), np.inf)
    begins_s = rounds.table.begins_s[rows]
    np.minimum.at(measured_s, np.searchsorted(loads + 1j * to_s, groups + 1j * begins_s), begins_s)
    from_s = np.maximum(np.minimum(measured_s, from_s + SHORTEST_S), boosted_until_s(rounds)[loads])
    # Cut where the work changes: each part lasts until the next one begins.
    cut_groups, cuts_s, _ = _unbroken(device, counted, by_work=True)
    of_cut = np.searchsorted(loads + 1j * to_s, cut_groups + 1j * cuts_s)
    within = cuts_s > from_s[of_cut]
    of_part = np.concatenate((np.arange(len(loads)), of_cut[within]))
    parts_s = np.concatenate((from_s, cuts_s[within]))
    order = np.lexsort((parts_s, of_part))
    of_part, from_s, load_s = of_part[order], parts_s[order], (to_s - from_s)[of_part[order]]
    last = np.append(of_part[1:] != of_part[:-1], True)[: len(of_part)]
    to_s = np.where(last, to_s[of_part], np.append(from_s[1:], np.inf))
    long_enough = load_s >= SHORTEST_S
    groups, from_s, to_s = loads[of_part][long_enough], from_s[long_enough], to_s[long_enough]
    lengths_s = to_s - from_s
    # Of a continuous load about a quarter of all stretches together.
    quarters_s = np.bincount(groups, weights=lengths_s, minlength=len(rounds.numbers)) / QUARTERS
    parts = np.where(lengths_s >= QUARTERED_S, QUARTERS, 1)
    whole = continuous[groups]
    parts[whole] = np.maximum(1, np.rint(lengths_s[whole] / quarters_s[groups[whole]]))
    starts_s, ends_s, stretches = slice_edges(from_s, to_s, lengths_s / parts)
    return groups[stretches], starts_s, ends_s


def measured_stretches(device: DeviceEvidence) -> tuple[Ids, Floats, Floats]:
    """The group, begin and end of each stretch of the same measured work, from BOOST_S into its stage on."""
    rounds = device.stage_rounds
    groups, from_s, to_s = _unbroken(device, _measured(rounds), by_work=True)
    from_s = np.maximum(from_s, boosted_until_s(rounds)[groups])
    lasts = to_s > from_s
    return groups[lasts], from_s[lasts], to_s[lasts]


def _measured(rounds: StageRounds) -> Mask:
    measured: Mask = rounds.table.mask("phase", "", ("measure",))[rounds.rows]
    return measured


def _with_duty(device: DeviceEvidence, duty: Duty) -> Mask:
    """Whether each group is of a stage with that duty."""
    of_duty = device.evidence.kinds.with_duty(device.evidence.kinds.names, (duty,))
    return np.asarray([stage in of_duty for _, stage in device.stage_rounds.numbers], np.bool_)


def boosted_until_s(rounds: StageRounds) -> Floats:
    """For each group the run time from which its work counts; infinite if it did none."""
    begun_s = np.full(len(rounds.numbers), np.inf)
    np.minimum.at(begun_s, rounds.groups, rounds.table.begins_s[rounds.rows])
    return begun_s + BOOST_S


def _unbroken(device: DeviceEvidence, counted: Mask, *, by_work: bool) -> tuple[Ids, Floats, Floats]:
    """As `unbroken`, of those rounds of the block that count; a fed device waits without a break."""
    rounds = device.stage_rounds
    rows, groups = rounds.rows[counted], rounds.groups[counted]
    fed = _with_duty(device, "fed")[groups]
    work = rounds.table.ids(device.evidence.kinds.same_work, "unit", rows)
    work = np.where(fed | (not by_work), -1, work)
    joining_s = np.where(fed, np.inf, JOINING_S)
    return unbroken(groups, rounds.table.begins_s[rows], rounds.table.t_s[rows], work, joining_s)


def _joined(pieces: Sequence[Piece], sizes: Sequence[float], enough: float) -> tuple[Piece, ...]:
    """Neighbours joined until each group's size is `enough`; what is left at the end joins the last group."""
    if sizes and min(sizes) >= enough:
        return tuple(pieces)
    found: list[list[Piece]] = []
    rest: list[Piece] = []
    size = 0.0
    for piece, its_size in zip(pieces, sizes, strict=True):
        rest.append(piece)
        size += its_size
        if size >= enough:
            found.append(rest)
            rest, size = [], 0.0
    if rest:
        found[-1:] = [[*(found[-1] if found else []), *rest]]
    return tuple(map(Piece.of, found))
