"""What a device did under load, stage by stage, for checks that belong to no single stage.

Such a check names the duties that it judges and gets a `Load` for each stage of the level that has one.
Clock, power and activity are judged over a load's `stretches`: the time of its measured rounds, since a
stage's window holds set-up and warm-up too. What must never happen is judged over its `window`.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from rigproof.criteria.criterion import Finding, NotMeasured
from rigproof.criteria.subjects import DeviceEvidence
from rigproof.criteria.windows import Window
from rigproof.profiles.stages import Duty, stage_kind
from rigproof.records.verdict import Outcome

BOOST_S = 2.0  # from a device's first round in a stage: its clock has not come down to the power cap yet
SHORTEST_S, FEWEST_SAMPLES = 1.0, 2  # a shorter stretch, or one of fewer samples, says nothing by itself
QUARTERS = 4  # a continuous load is judged in these, so that a fault that begins late is not averaged away


@dataclass(frozen=True, slots=True)
class Load:
    """One device in one stage: the stage's window, and the stretches in which its rounds were measured."""

    stage: str
    duty: Duty
    window: Window
    stretches: tuple[Window, ...]

    @property
    def measured_s(self) -> float:
        """Seconds of all stretches."""
        return sum(stretch.length_s for stretch in self.stretches)


def load_of(device: DeviceEvidence, stage: str) -> Load:
    """What a device did in a stage. NotMeasured where it was broken off, or measured nothing there."""

    def made() -> Load:
        window = device.evidence.complete_window(stage)
        return Load(stage, stage_kind(stage).duty, window, _stretches(device, stage))

    return device.evidence.held(("load", device.subject, stage), made)


def over_loads(device: DeviceEvidence, duties: Collection[Duty], find: Callable[[Load], Finding]) -> Finding:
    """As `over_stages`, of what the device did in each."""
    return over_stages(device, duties, lambda stage: find(load_of(device, stage)))


def over_stages(device: DeviceEvidence, duties: Collection[Duty], find: Callable[[str], Finding]) -> Finding:
    """The worst finding of all stages with these duties; the closest to its limit where all are good.

    A failure in one stage stands, whatever could not be measured in another; else all have to be measured.
    """
    found: list[Finding] = []
    unmeasured: list[NotMeasured] = []
    stages = device.evidence.stages_with(duties)
    for stage in stages:
        try:
            finding = find(stage)
        except NotMeasured as reason:
            where = "" if stage in reason.reason else f"{stage}: "
            unmeasured.append(type(reason)(f"{where}{reason.reason}"))
        else:
            where = f"in the {stage} stage" if len(stages) > 1 and stage not in finding.detail else ""
            found.append(replace(finding, detail=", ".join(filter(None, (finding.detail, where)))))
    order = (Outcome.FAIL, Outcome.WARN, Outcome.NO_LIMIT, Outcome.PASS)
    worst = min(found, key=lambda one: (order.index(one.outcome), _margin(one)), default=None)
    if worst is not None and worst.outcome is Outcome.FAIL:
        return worst
    if unmeasured:
        raise next((one for one in unmeasured if one.outcome is Outcome.NOT_MEASURED), unmeasured[0])
    if worst is None:
        raise NotMeasured("the level has no stage that this is judged in")
    return worst


def _margin(finding: Finding) -> float:
    """How far from its limit, as a share of it; infinity where nothing is compared."""
    if finding.measured is None or finding.limit is None:
        return float("inf")
    margin = abs(finding.measured - finding.limit.value) / (abs(finding.limit.value) or 1.0)
    return -margin if finding.outcome is Outcome.FAIL else margin


def _stretches(device: DeviceEvidence, stage: str) -> tuple[Window, ...]:
    """When the device's rounds of a stage were measured, from BOOST_S into the load.

    A fed device counts as working from its first measured round to its last: that it waits is what is judged.
    """
    rounds = device.rounds(stage)
    measured = rounds.only(rounds.same("phase", "measure"))
    if not len(measured):
        cause = device.cause()
        raise NotMeasured(f"no round of {stage} was measured" + (f": {cause}" if cause else ""))
    begun_s = float(rounds.begins_s.min()) + BOOST_S
    duty = stage_kind(stage).duty
    if duty == "fed":
        found = [Window(float(measured.begins_s.min()), float(measured.t_s.max()))]
    else:
        found = [Window(*pair) for pair in measured.unbroken()]
    trimmed = [Window(max(begun_s, one.from_s), one.to_s) for one in found if one.to_s > begun_s]
    shortest_s = max(SHORTEST_S, FEWEST_SAMPLES / (device.evidence.loaded.rig.sampling.rate_hz or 1.0))
    long_enough = [one for one in trimmed if one.length_s >= shortest_s]
    if not long_enough:
        raise NotMeasured(f"{stage} was never measured for {shortest_s:g} s without a break")
    return _quartered(long_enough) if duty == "continuous" else tuple(long_enough)


def _quartered(stretches: list[Window]) -> tuple[Window, ...]:
    """Pieces of about a quarter of all of it together."""
    width_s = sum(one.length_s for one in stretches) / QUARTERS
    return tuple(
        piece
        for one in stretches
        for piece in one.slices(one.length_s / max(1, round(one.length_s / width_s)))
    )
