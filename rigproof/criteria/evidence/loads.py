"""What a device did under load, stage by stage, for checks that belong to no single stage.

Such a check names the duties that it judges and gets a `Load` for each stage of the level with one of them.
Clock, power, activity and the link are judged over a load's `pieces`: all the time in which the device worked
without a break, warm-up included, once its sensors had followed. What must never happen is judged over the
stage's `window`. What is left out of the window and why: docs/judged.md.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rigproof.criteria.criterion import Finding, NotMeasured
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.rounds import JOINING_S, Rounds, unbroken
from rigproof.criteria.evidence.series import Floats, places_within
from rigproof.criteria.evidence.windows import Window
from rigproof.profiles.kinds.stages import DUTIES, Duty
from rigproof.records.rows import Rows
from rigproof.records.verdict import Outcome, count_of

Numbers = npt.NDArray[np.intp]
BOOST_S = 2.0  # from a device's first round in a stage: until its clock has come down to the power cap
SHORTEST_S = 1.0  # of a load without a break: a shorter one is over before the sensors follow
# Long stretches are judged in quarters, so that a fault that begins late is not averaged away: a continuous
# load of any length, any other stretch if a quarter of it has two values of NVML's slowest sensor.
QUARTERS, QUARTERED_S = 4, 8.0
FEWEST_SAMPLES = 5  # of a piece: with fewer, two samples decide the median; it is joined with its neighbours


class Piece(NamedTuple):
    """Measured work that is judged as one: a stretch, a part of one, or several short neighbours.

    Some twenty are made for each device: a dataclass would take three times as long.
    """

    stretches: tuple[Window, ...]
    places: tuple[slice, ...]  # of the samples in each, in the device's series

    @classmethod
    def of(cls, pieces: Sequence["Piece"]) -> "Piece":
        """Neighbouring pieces joined into one."""
        if len(pieces) == 1:
            return pieces[0]
        stretches = tuple(one for piece in pieces for one in piece.stretches)
        return cls(stretches, tuple(one for piece in pieces for one in piece.places))

    @property
    def samples(self) -> int:
        """The number of samples."""
        return sum(one.stop - one.start for one in self.places)

    @property
    def span(self) -> Window:
        """The time from its beginning to its end, that between its stretches included."""
        return Window(self.stretches[0].from_s, self.stretches[-1].to_s)

    @property
    def length_s(self) -> float:
        """Seconds of measured work in it."""
        return sum(stretch.length_s for stretch in self.stretches)


class PieceReadings:
    """What a sensor of one device read in some pieces; each array has a value for each of `pieces`.

    `parts` are the samples of each piece, NaN where a sample lacks it; a figure of a piece without readings
    is NaN.
    """

    def __init__(self, pieces: Sequence[Piece], samples: Rows[Any], field: str) -> None:
        self.pieces = pieces
        numbers = samples.column(field)
        self.parts = [np.concatenate([numbers[place] for place in piece.places]) for piece in pieces]
        self._known = [part[~np.isnan(part)] for part in self.parts]

    @property
    def counts(self) -> Numbers:
        """The number of readings of each piece."""
        return np.asarray([len(one) for one in self._known])

    @cached_property
    def means(self) -> Floats:
        """The mean reading of each piece."""
        return self._each(np.mean)

    @cached_property
    def medians(self) -> Floats:
        """The median reading of each piece."""
        return self._each(np.median)

    @cached_property
    def upper_medians(self) -> Floats:
        """For each piece, the highest value that at least half of its readings reach."""
        return self._each(lambda one: np.sort(one)[len(one) // 2])

    @cached_property
    def lowest(self) -> Floats:
        """The lowest reading of each piece."""
        return self._each(np.min)

    def _each(self, figure: Callable[[Floats], Any]) -> Floats:
        return np.asarray([figure(one) if len(one) else np.nan for one in self._known], np.float64)


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
            raise device.unmeasured(f"no round of {stage} was measured")
        pieces = _pieces(device, stage)
        if not pieces:
            raise NotMeasured(f"{stage} was never measured for {SHORTEST_S:g} s without a break")
        return Load(stage, device.evidence.kinds[stage].duty, window, pieces)

    return device.cached(("load", stage), made)


def _always(_: Finding) -> bool:
    return True


def over_loads(
    device: DeviceEvidence,
    duties: Collection[Duty],
    find: Callable[[Load], Finding],
    weighty: Callable[[Finding], bool] = _always,
) -> Finding:
    """Judge the device's load in each stage with one of these duties, and combine the findings.

    With too few samples a load may pass, but not fail.
    """

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


def _pieces(device: DeviceEvidence, stage: str) -> tuple[Piece, ...]:
    """The parts of its loads in a stage, with neighbours joined until each is long enough to be judged.

    A load is any work without a break. It counts from BOOST_S after the device's first round in the stage,
    and one that begins with warm-up from SHORTEST_S after that or its first measured round. It is cut where
    the work changes. A fed device counts as working from its first measured round to its last: its waiting
    is what is judged.
    """
    rounds, duty = device.rounds(stage), device.evidence.kinds[stage].duty
    counted = rounds.measured if duty == "fed" else rounds
    measured_s, boosted_s = rounds.measured.begins_s, boosted_until_s(rounds)
    cuts_s = [begun_s for begun_s, _ in _loads(device, stage, counted, by_work=True)]
    stretches: list[Window] = []
    for begun_s, ended_s in _loads(device, stage, counted):
        measuring_s = measured_s[measured_s >= begun_s].min(initial=np.inf)
        from_s = max(min(float(measuring_s), begun_s + SHORTEST_S), boosted_s)
        if ended_s - from_s >= SHORTEST_S:
            edges_s = [from_s, *(one for one in cuts_s if from_s < one < ended_s), ended_s]
            stretches += map(Window, edges_s[:-1], edges_s[1:])
    # Of a continuous load about a quarter of all stretches together.
    quarter_s = sum(one.length_s for one in stretches) / QUARTERS
    pieces: list[Piece] = []
    for one in stretches:
        number = QUARTERS if one.length_s >= QUARTERED_S else 1
        if duty == "continuous":
            number = max(1, round(one.length_s / quarter_s))
        pieces += [Piece((part,), (places_within(device.samples, part),)) for part in one.parts(number)]
    long = _joined(pieces, [one.length_s for one in pieces], SHORTEST_S)
    return _joined(long, [one.samples for one in long], FEWEST_SAMPLES)


def measured_stretches(device: DeviceEvidence) -> Iterator[Window]:
    """Each stretch of the same measured work in a stage that is valid, from BOOST_S into that stage on."""
    for stage in device.evidence.stages_with(*DUTIES):
        try:
            rounds = device.rounds(stage)
        except NotMeasured:  # a criterion that needs this stage reports it
            continue
        boosted_s = boosted_until_s(rounds)
        for begun_s, ended_s in _loads(device, stage, rounds.measured, by_work=True):
            if ended_s > boosted_s:
                yield Window(max(begun_s, boosted_s), ended_s)


def boosted_until_s(rounds: Rounds) -> float:
    """The run time from which the work of a device in a stage counts; infinite if it did none."""
    return float(rounds.begins_s.min(initial=np.inf)) + BOOST_S


def _loads(
    device: DeviceEvidence, stage: str, rounds: Rounds, *, by_work: bool = False
) -> list[tuple[float, float]]:
    """The stretches in which the device worked without a break, `by_work` also without a change of work.

    A fed device waits without a break, and for any work.
    """
    kinds = device.evidence.kinds
    fed = kinds[stage].duty == "fed"
    work = rounds.work_ids(kinds) if by_work and not fed else np.zeros(len(rounds), np.intp)
    return unbroken(rounds.begins_s, rounds.t_s, work, np.inf if fed else JOINING_S)


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
