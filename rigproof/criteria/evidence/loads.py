"""What a device did under load, stage by stage, for checks that belong to no single stage.

Such a check names the duties that it judges and gets a `Load` for each stage of the level with one of them.
Clock, power, activity and the link are judged over a load's `pieces`: the time of its measured rounds, since
a stage's window also includes set-up and warm-up. What must never happen is judged over its `window`.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from rigproof.criteria.criterion import Finding, NotMeasured
from rigproof.criteria.evidence.pieces import Piece, PieceTable
from rigproof.criteria.evidence.subjects import DeviceEvidence
from rigproof.criteria.evidence.windows import Window
from rigproof.profiles.kinds.stages import DUTIES, Duty
from rigproof.records.verdict import Outcome

Made = TypeVar("Made")

BOOST_S = 2.0  # from a device's first round in a stage: until its clock has come down to the power cap
SHORTEST_S = 1.0  # of a stretch: a shorter one is over before the sensors follow
# Long stretches are judged in quarters, so that a fault that begins late is not averaged away: a continuous
# load of any length, any other stretch if a quarter of it has two values of NVML's slowest sensor.
QUARTERS, QUARTERED_S = 4, 8.0
FEWEST_SAMPLES = 5  # of a piece: with fewer, two samples decide the median; it is joined with its neighbours


@dataclass(frozen=True, slots=True)
class Load:
    """One device in one stage: the stage's window, and the pieces in which its rounds were measured."""

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
        """Seconds of measured work in all its pieces."""
        return sum(piece.length_s for piece in self.pieces)

    def pieces_of(self, shortest_s: float) -> tuple[Piece, ...]:
        """Its pieces, with neighbours joined until each is at least that long."""
        if not shortest_s:
            return self.pieces
        joined = _joined(self.pieces, lambda pieces: sum(one.length_s for one in pieces) >= shortest_s)
        return tuple(map(Piece.of, joined))


def load_of(device: DeviceEvidence, stage: str) -> Load:
    """What a device did in a stage. NotMeasured if the stage was aborted, or the device measured nothing."""

    def made() -> Load:
        window = device.evidence.complete_window(stage)
        series = device.series
        alone = [Piece((one,), (series.places(one),)) for one in _stretches(device, stage)]
        joined = _joined(alone, lambda pieces: sum(one.samples for one in pieces) >= FEWEST_SAMPLES)
        pieces = tuple(map(Piece.of, joined))
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


def over_loads(device: DeviceEvidence, duties: Collection[Duty], find: Callable[[Load], Finding]) -> Finding:
    """As `over_stages`, for the device's load in each. With too few samples it may pass, but not fail."""

    def in_stage(stage: str) -> Finding:
        load = load_of(device, stage)
        finding = find(load)
        if finding.outcome is Outcome.FAIL and load.samples < FEWEST_SAMPLES:
            raise NotMeasured(
                f"only {load.samples} samples were taken while {stage} was measured, too few to fail a "
                "card: raise `sampling.rate_hz`"
            )
        return finding

    return over_stages(device, duties, in_stage)


def over_stages(device: DeviceEvidence, duties: Collection[Duty], find: Callable[[str], Finding]) -> Finding:
    """The worst finding of all stages with these duties; the closest to its limit if all are good.

    A failure in one stage counts even if another could not be measured; otherwise all must be measured.
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
            unmeasured.append(type(reason)(f"{where}{reason.reason}"))
        else:
            found.append((finding, stage))
    order = (Outcome.FAIL, Outcome.WARN, Outcome.NO_LIMIT, Outcome.PASS)
    worst = min(found, key=lambda one: (order.index(one[0].outcome), _margin(one[0])), default=None)
    if unmeasured and (worst is None or worst[0].outcome is not Outcome.FAIL):
        raise next((one for one in unmeasured if one.outcome is Outcome.NOT_MEASURED), unmeasured[0])
    if worst is None:
        raise NotMeasured("the level has no stage in which this is judged")
    finding, stage = worst
    where = f"in the {stage} stage" if len(stages) > 1 and stage not in finding.detail else ""
    return replace(finding, detail=", ".join(filter(None, (finding.detail, where))))


def _margin(finding: Finding) -> float:
    """How far from its limit, as a share of it, negative beyond it; infinity if nothing is compared."""
    if finding.measured is None or finding.limit is None:
        return float("inf")
    margin = abs(finding.measured - finding.limit.value) / (abs(finding.limit.value) or 1.0)
    return -margin if finding.outcome is Outcome.FAIL else margin


def _stretches(device: DeviceEvidence, stage: str) -> tuple[Window, ...]:
    """When the device's rounds of a stage were measured, from BOOST_S into the load.

    A fed device counts as working from its first measured round to its last: its waiting is what is judged.
    """
    rounds = device.rounds(stage)
    measured = rounds.measured
    if not len(measured):
        cause = device.cause()
        raise NotMeasured(f"no round of {stage} was measured" + (f": {cause}" if cause else ""))
    begun_s = float(rounds.begins_s.min()) + BOOST_S
    duty = device.evidence.kinds[stage].duty
    if duty == "fed":
        found = [Window(float(measured.begins_s.min()), float(measured.t_s.max()))]
    else:
        found = [Window(*pair) for pair in measured.unbroken(device.evidence.kinds)]
    trimmed = [Window(max(begun_s, one.from_s), one.to_s) for one in found if one.to_s > begun_s]
    long_enough = [one for one in trimmed if one.length_s >= SHORTEST_S]
    if not long_enough:
        raise NotMeasured(f"{stage} was never measured for {SHORTEST_S:g} s without a break")
    return tuple(piece for one in long_enough for piece in one.slices(_width_s(one, duty, long_enough)))


def _width_s(stretch: Window, duty: Duty, stretches: list[Window]) -> float:
    """The length of a stretch's parts; for a continuous load about a quarter of all stretches together."""
    if duty != "continuous":
        return stretch.length_s / (QUARTERS if stretch.length_s >= QUARTERED_S else 1)
    quarter_s = sum(one.length_s for one in stretches) / QUARTERS
    return stretch.length_s / max(1, round(stretch.length_s / quarter_s))


def _joined(ones: Iterable[Made], enough: Callable[[list[Made]], bool]) -> list[list[Made]]:
    """Neighbours joined until each group is `enough`; what is left at the end joins the last group."""
    found: list[list[Made]] = []
    rest: list[Made] = []
    for one in ones:
        rest.append(one)
        if enough(rest):
            found.append(rest)
            rest = []
    if rest:
        found[-1:] = [[*(found[-1] if found else []), *rest]]
    return found
