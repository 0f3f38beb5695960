"""Did every GPU really work?"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rigproof.criteria.criterion import Criterion, Finding, Limit, NotApplicable, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.clocks import within
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.loads import Load, load_of, over_stages
from rigproof.criteria.evidence.power_limits import (
    enforced_power_w,
    enforced_power_within,
    has_no_power_limit,
)
from rigproof.criteria.evidence.rounds import unbroken
from rigproof.criteria.evidence.sensors import power_field, readings_by_piece, require_in_time
from rigproof.criteria.evidence.slowed import slowed_by
from rigproof.criteria.evidence.windows import Window, without_work
from rigproof.profiles.kinds.stages import DUTIES, Duty, StageKinds
from rigproof.profiles.tables.limits import LIMITS
from rigproof.records.measurements import Event, Labels
from rigproof.records.verdict import Outcome, count_of
from rigproof.simulation.faults.kinds import REPEATING, TIMES, FaultKind

ACTIVE_WORK_SHARE = LIMITS.key(lambda limits: limits.active_work_share)
PAUSE_S = LIMITS.key(lambda limits: limits.pause_s)
ACTIVE_POWER_SHARE = LIMITS.key(lambda limits: limits.active_power_share)
ACTIVE_UTILIZATION_SHARE = LIMITS.key(lambda limits: limits.active_utilization_share)

WINDOW_S = 1.0  # the meaning of "a second with work"
# Of a piece's time, with rounds: else its power says nothing. Between those of a warm-up memory is filled.
FILLED_SHARE = 0.5
FED = "a fed device may wait, which feeding.idle_gaps judges"


@Criterion(
    "activity.gpu_active",
    title="GPU active",
    unit="%",
    direction="at_least",
    limit="`limits.active_work_share` of 1 s windows with verified work; at most `limits.pause_s` "
    "without a round before a measured one of the same work (fed and continuous loads are judged otherwise); "
    "and wherever rounds fill half of the time a mean power of at least `limits.active_power_share` of the "
    "enforced limit (if the driver has no limit, a mean utilisation of "
    "`limits.active_utilization_share`); no wrong result",
    limits=(ACTIVE_WORK_SHARE, PAUSE_S, ACTIVE_POWER_SHARE, ACTIVE_UTILIZATION_SHARE),
    severity="isolate",
    remedy="find out what that worker waited for: a lost process, another job on the card, a blocked queue",
    unmeasured="the device was deliberately left out, the stage was aborted, one of its workers reported "
    "nothing for the end of it though it ended as if it had worked, or power was not read often enough; "
    "utilisation alone never suffices",
    needs=("continuous",),
    duties=DUTIES,
    caused_by_others=slowed_by,
)
def gpu_active(device: DeviceEvidence) -> Finding:
    """The device did verified work in nearly every second of every load, and drew power for it.

    A continuous load must have no break; of other loads the stretches of measured work count, and how long
    a fed device waits is judged by feeding.idle_gaps. For the CPU as the device only verified work counts.
    """
    wrong = device.events("wrong_result")
    if wrong:
        return _by_results(device, wrong)
    left_out = device.left_out
    if left_out:
        raise NotMeasured(left_out)
    return over_stages(device, DUTIES, lambda stage: _to_the_end(device, stage))


def active_in(device: DeviceEvidence, stage: str) -> bool | None:
    """Whether it was active in that stage alone; None if that is not judged there, or was not measured."""
    if stage not in device.evidence.stages_with(*DUTIES):
        return None
    try:
        return _in_stage(device, stage).outcome is Outcome.PASS
    except NotMeasured:
        return None


def _to_the_end(device: DeviceEvidence, stage: str) -> Finding:
    """A device that worked is not measured if one of its workers fell silent and ended as if it had worked.

    Each works for the `duration_s` that it was told, from the stage's beginning or later. Not one that does
    its arms and is done; nor one that has left work out. A fed one may wait as long as it did before.
    """
    finding, kind, ran = _in_stage(device, stage), device.evidence.kinds[stage], device.evidence.stage(stage)
    events = [one for one in device.events(*kind.events) if one.stage == stage]
    ended = ran.status == "finished" and not device.cause() and kind.duty != "arms"
    if finding.outcome is not Outcome.PASS or not ended or kind.left_out(events):
        return finding
    told = [one.get("duration_s") for one in device.told(stage)]
    told_s = max((one for one in told if isinstance(one, int | float)), default=0.0)
    rounds = device.evidence.rounds(device.subject)
    own = rounds.only(rounds.same("stage", stage) & np.isfinite(rounds.begins_s))
    for worker in own.distinct("worker"):
        ends_s = np.sort(own.only(own.same("worker", worker)).t_s)
        waited_s = float(np.diff(ends_s).max(initial=0.0))
        done_s = float(ends_s[-1]) - ran.start_s
        if done_s + waited_s < device.evidence.loaded.rig.levels.least_share * told_s:
            raise NotMeasured(
                f"{worker} was told to work for {told_s:.0f} s and reported no round after {done_s:.0f} s, "
                "though it ended as if it had"
            )
    return finding


def _in_stage(device: DeviceEvidence, stage: str) -> Finding:
    window, duty = device.evidence.complete_window(stage), device.evidence.kinds[stage].duty
    work = _work(device, stage)
    if not work.measured:
        return _without_work(device, window, stage)
    if device.is_cpu and duty != "continuous":
        limit = device.limit(ACTIVE_WORK_SHARE).times(100)
        return pass_or_fail(100.0, limit, good=True, detail="verified work was measured")
    if duty != "continuous":
        load_of(device, stage)  # or why there is none
    finding = _by_work(device, duty, work)
    if finding.outcome is Outcome.FAIL or device.is_cpu or duty == "fed":
        return finding
    paused = None if duty == "continuous" else _by_pause(device, stage)
    if paused is not None:
        return paused
    load = _filled(device, load_of(device, stage))
    no_limit = device.identity.power_limit_w is None and has_no_power_limit(device)
    if no_limit or device.lacks_sensor(power_field(device)):
        return _by_utilization(device, load, finding)
    return _by_power(device, load, finding)


def _by_results(device: DeviceEvidence, wrong: Sequence[Event]) -> Finding:
    """Any wrong result fails; the value is the share of rounds without one."""
    count = sum(event.number for event in wrong)
    share = 100 * (1 - count / max(len(device.all_rounds), count))
    number = "1 wrong result" if count == 1 else f"{count} wrong results"
    return Finding(
        Outcome.FAIL,
        share,
        Limit(100, "every result equals its reference"),
        f"{number}, the first: {wrong[0].message}",
        remedy="do not train on this card: silently wrong results ruin a run; test its memory and power",
        from_s=wrong[0].t_s,
    )


def _without_work(device: DeviceEvidence, window: Window, stage: str) -> Finding:
    every = device.evidence.rounds(device.subject)
    verified = every.only(every.same("stage", stage) & every.same("verified", True))
    if len(device.uncounted) and len(verified.measured):
        raise NotMeasured("its host stood still in each of its rounds")
    cause = device.cause()
    detail = "no verified work was measured" + (f"; {cause}" if cause else "")
    limit = device.limit(ACTIVE_WORK_SHARE).times(100)
    idle_s = float(verified.t_s.max(initial=window.from_s))  # since its warm-up, if it began one
    over = ((min(idle_s, window.to_s), window.to_s),)
    return pass_or_fail(0.0, limit, good=False, detail=detail, from_s=window.from_s, over=over)


class _Work(NamedTuple):
    """Whether any verified round was measured, how many seconds a load has, and those without such work."""

    measured: bool
    seconds: int
    idle: int
    idle_from_s: float  # of the first one


def _by_work(device: DeviceEvidence, duty: Duty, work: _Work) -> Finding:
    """The whole window of a continuous load; of any other load the stretches in which it measured.

    For a fed device any work is enough: how long it waits is judged elsewhere.
    """
    share = 100 * (1 - work.idle / work.seconds)
    limit = device.limit(ACTIVE_WORK_SHARE).times(100)
    detail = f"verified work in {work.seconds - work.idle} of {count_of(work.seconds, 'windows')} of 1 s"
    if share >= limit.value:
        return pass_or_fail(share, limit, good=True, detail=detail)
    if duty == "fed":
        return Finding(Outcome.PASS, share, limit, detail, excused=FED)
    cause = device.cause()
    detail += f"; {cause}" if cause else ""
    return pass_or_fail(share, limit, good=False, detail=detail, from_s=work.idle_from_s)


def _work(device: DeviceEvidence, stage: str) -> _Work:
    """A device's verified work in a stage. NotMeasured if a round is not valid."""
    verified = device.rounds(stage).verified
    slices = [one for stretch in _stretches(device, stage) for one in stretch.slices(WINDOW_S)]
    # While its host stood still, no card could work, and none is to blame.
    from_still_s, to_still_s = device.uncounted.T
    begins_s, ends_s = (
        np.append(*both) for both in ((verified.begins_s, from_still_s), (verified.t_s, to_still_s))
    )
    (idle,) = without_work(begins_s, ends_s, slices).nonzero()
    idle_from_s = slices[idle[0]].from_s if len(idle) else math.nan
    return _Work(len(verified.measured) > 0, len(slices), len(idle), idle_from_s)


def _stretches(device: DeviceEvidence, stage: str) -> Sequence[Window]:
    """The whole window of a continuous load, the stretches of any other one; none if there is no load."""
    if stage in device.evidence.stages_with("continuous"):
        return (device.evidence.complete_window(stage),)
    try:
        return load_of(device, stage).stretches
    except NotMeasured:  # `_in_stage` reports it
        return ()


def _by_pause(device: DeviceEvidence, stage: str) -> Finding | None:
    """The failure of a device that did nothing for a while in the middle of a measurement.

    Its rates do not show that: each round is as fast as ever. A continuous load is judged window by window.
    """
    limit = device.optional_limit(PAUSE_S)
    pause = _longest_pause(device, stage)
    if limit is None or pause is None:
        return None
    begun_s, ended_s = pause
    length_s = ended_s - begun_s - within(device.uncounted, begun_s, ended_s)
    if length_s <= limit.value:
        return None
    cause = device.cause()
    detail = f"no round for {length_s:.1f} s in the middle of {stage}" + (f"; {cause}" if cause else "")
    source = f"at most {limit.value:g} s; {limit.source}"
    over = (pause,)
    return Finding(Outcome.FAIL, detail=detail, source=source, from_s=begun_s, length_s=length_s, over=over)


def _longest_pause(device: DeviceEvidence, stage: str) -> tuple[float, float] | None:
    """The longest pause before a measured round, within one work; None if there is none.

    After the last round of one work the next is made ready, which is no pause.
    """
    rounds, kinds = device.rounds(stage), device.evidence.kinds
    order = np.argsort(rounds.begins_s, kind="stable")
    begins_s, ends_s = rounds.begins_s[order], np.maximum.accumulate(rounds.t_s[order])
    work, measured = rounds.work_ids(kinds)[order], rounds.same("phase", "measure")[order]
    measured &= ~rounds.where_labels(_rests(kinds))[order]
    pauses_s = np.where((work[1:] == work[:-1]) & measured[1:], begins_s[1:] - ends_s[:-1], 0.0)
    if not pauses_s.max(initial=0.0) > 0:
        return None
    place = int(pauses_s.argmax())
    return float(ends_s[place]), float(begins_s[place + 1])


def _rests(kinds: StageKinds) -> Callable[[Labels], bool]:
    """Whether a device may rest between rounds with these labels."""
    resting = {label.name: label.rests for kind in kinds for label in kind.labels if label.rests}
    return lambda labels: any(labels.get(name) in values for name, values in resting.items())


def _filled(device: DeviceEvidence, load: Load) -> Load:
    """The load without the pieces that its rounds do not fill; all of it if they fill none."""
    rounds = device.rounds(load.stage)
    worked = unbroken(rounds.begins_s, rounds.t_s, np.zeros(len(rounds), np.intp), 0.0)
    busy = np.asarray(worked).reshape(-1, 2)
    filled = tuple(
        piece
        for piece in load.pieces
        if sum(within(busy, one.from_s, one.to_s) for one in piece.stretches) >= FILLED_SHARE * piece.length_s
    )
    return replace(load, pieces=filled or load.pieces)


def _by_power(device: DeviceEvidence, load: Load, by_work: Finding) -> Finding:
    """Judged by the piece in which it drew the least."""
    read = readings_by_piece(device, load, power_field(device), "power")
    mean_w, piece = float(read.means.min()), read.pieces[int(read.means.argmin())]
    enforced_w = enforced_power_within(device, piece.span) or enforced_power_w(device)
    limit = device.limit(ACTIVE_POWER_SHARE).times(100, f" of the enforced {enforced_w:.0f} W")
    share = 100 * mean_w / enforced_w
    if share >= limit.value:
        return by_work
    require_in_time(device)
    detail = f"mean power {mean_w:.0f} W of {enforced_w:.0f} W while its workers reported work"
    from_s, length_s = piece.span.from_s, piece.length_s
    unit = "% of the power limit"
    return pass_or_fail(share, limit, good=False, detail=detail, from_s=from_s, length_s=length_s, unit=unit)


def _by_utilization(device: DeviceEvidence, load: Load, by_work: Finding) -> Finding:
    """Without a power limit or a power sensor: the driver reports it as busy, and it did verified work."""
    try:
        used = readings_by_piece(device, load, "utilization_percent", "utilisation")
    except NotApplicable as reason:  # whether it worked is asked of any card
        raise NotMeasured(f"neither power nor utilisation can be read: {reason.reason}") from reason
    mean = float(used.means.min())
    limit = device.limit(ACTIVE_UTILIZATION_SHARE).times(100)
    if mean >= limit.value:
        lacking = "power limit" if device.identity.power_limit_w is None else "power"
        detail = f"{by_work.detail}, utilisation {mean:.0f} %; the driver reports no {lacking}"
        return by_work._replace(detail=detail)
    detail = f"mean utilisation {mean:.0f} % while its workers reported work"
    from_s = load.window.from_s
    return pass_or_fail(mean, limit, good=False, detail=detail, from_s=from_s, unit="% utilisation")


FAULTS = (
    FaultKind(
        "gpu-idle",
        "its workers hardly work, and it draws almost no power",
        ("activity.gpu_active",),
        keys=TIMES,
        duties=DUTIES,
        of_task=True,
    ),
    FaultKind(
        "bit-flip",
        "results differ from their reference, without any driver event",
        ("activity.gpu_active", "memory.success_rate", "compute.exact"),
        keys=TIMES,
        defaults={"after": "50%", "for": "30%"},
        duties=REPEATING,
        of_task=True,
    ),
)
