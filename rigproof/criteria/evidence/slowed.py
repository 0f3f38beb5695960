"""Rates that others lowered: strangers on the card, who took its host's CPU time, who ended its workers.

Nobody explains more than can have been taken in the time while they were there.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rigproof.criteria.criterion import Disturbed, Finding, Trouble
from rigproof.criteria.evidence.clocks import within
from rigproof.criteria.evidence.cpu_use import shortage
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.events import SEEN_BEFORE_S
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.launches import disturbed
from rigproof.criteria.evidence.rates import rate_or_none
from rigproof.criteria.evidence.rounds import FEWEST_ROUNDS, unbroken
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.criteria.evidence.strangers import NOT_BY_STRANGERS, Stranger, explanation, stages_of, suspects
from rigproof.criteria.evidence.want_of_memory import ran_short
from rigproof.criteria.evidence.windows import Window
from rigproof.profiles.tables.limits import LIMITS

PAUSE_S = LIMITS.key(lambda limits: limits.pause_s)
STRANGER_SM_PERCENT = LIMITS.key(lambda limits: limits.stranger_sm_percent)

# The share of a rate that a stranger can have taken is that of the time while it was there, if it took all of
# the card. Of a mean (`Finding.over`) a quarter more, since what it evicted and heated outlasts it; a median,
# such as that of a quarter of a stage, is lost with half of its time. When a stranger came and went is known
# to a second, which counts as time while it was there: so in a short stage less is left to the card. Both are
# bounds of what explains a failure, and no limits of a rig.
OF_MEAN, OF_MEDIAN = 1.25, 2.0


def slowed_by(about: DeviceEvidence | Evidence, trouble: Trouble) -> str | None:
    """Explains a low rate if strangers that computed at the time can have taken what it lacks.

    How much of the SMs they used is not asked: a few can fill the link, or the memory's bandwidth. Or it is
    explained if one left too little memory for the work. Raises Disturbed if others ended a worker, or kept
    it from starting, and the work that it did not do is what the rate lacks; or if they left a GPU's host so
    much less CPU time than the run needs; or if its host launches products more slowly than it does them.
    """
    devices = about.devices if isinstance(about, Evidence) else (about,)
    taken = [(device, _taken(device, trouble)) for device in devices]
    if _enough(trouble.finding, taken):
        for _, one in taken:
            if one.lost is not None:
                raise one.lost
            if one.strangers:
                return explanation(one.strangers, "computed on this card")
    for device in devices:
        if (by_host := _paced_by_host(device, trouble, of_sum=isinstance(about, Evidence))) is not None:
            raise by_host
    return next(filter(None, (ran_short(device, trouble) for device in devices)), None)


def rate_slowed_by(about: DeviceEvidence | Evidence, trouble: Trouble) -> str | None:
    """The same for a criterion that also finds wrong results: those are no rate, and have no such excuse."""
    return None if trouble.finding.measured is None else slowed_by(about, trouble)


def member_slowed_by(about: SharedEvidence, trouble: Trouble) -> str | None:
    """The same for devices that work together: explained by what is explained of one of them."""
    members = (one for one in about.members if isinstance(one, DeviceEvidence))
    return next(filter(None, (rate_slowed_by(one, trouble) for one in members)), None)


def _paced_by_host(device: DeviceEvidence, trouble: Trouble, *, of_sum: bool) -> Disturbed | None:
    """What the trouble is, if the pace of the products measured at the time was their host's.

    None if it would be good without the time in which no round ran: a launch is much shorter than a pause.
    `of_sum`: the figure is the sum of the devices' sustained rates.
    """
    finding, stages = trouble.finding, stages_of(device, trouble)
    if _hurt(device) or finding.measured is None or finding.limit is None:
        return None
    spans = [one[:2] for stage in stages.values() for one in _during(finding, stage)]
    rounds = device.evidence.rounds(device.subject).verified
    rounds = rounds.only(rounds.same("stage", *stages)).during(spans)
    paced = disturbed(device, rounds.measured, finding)
    if paced is None:
        return None
    begins_s, ends_s = np.reshape(spans, (-1, 2)).T
    whole = unbroken(begins_s, ends_s, np.zeros(len(spans), np.intp), 0.0)
    worked = unbroken(rounds.begins_s, rounds.t_s, np.zeros(len(rounds), np.intp))
    whole_s = sum(to_s - from_s - within(device.uncounted, from_s, to_s) for from_s, to_s in whole)
    worked_s = sum(to_s - from_s for from_s, to_s in worked)
    rate = rate_or_none(device) if of_sum else None
    own = finding.measured if rate is None else rate.tflops
    return paced if finding.measured + own * (whole_s / worked_s - 1) < finding.limit.value else None


@dataclass(frozen=True, slots=True)
class _Taken:
    """What others can have taken of a device's work at a time, at most: its share, who, and a lost worker.

    `faster`: by what factor the rounds without any stranger were faster than all; None if there are too few.
    """

    share: float
    strangers: tuple[Stranger, ...]
    lost: Disturbed | None
    faster: float | None = None


def _taken(device: DeviceEvidence, trouble: Trouble) -> _Taken:
    finding, stages = trouble.finding, stages_of(device, trouble)
    spans = [(name, one) for name, stage in stages.items() for one in _during(finding, stage)]
    length_s = sum(one.length_s for _, one in spans)
    there = tuple(
        one
        for one in suspects(device, stages.values())
        if _computed(device, one) and any(one.inside_s(span) > 0 for _, span in spans)
    )
    computed_s = sum(one.inside_s(span) for one in there for _, span in spans)
    pause = finding.measured is None  # as long as nobody was there, the device could have worked
    taken_s = (1.0 if pause else OF_MEAN if finding.over else OF_MEDIAN) * computed_s
    lost = None
    for reason, worker, hole in _holes(device):
        missing_s = sum(_part(device, worker, name) * _overlap_s(hole, span) for name, span in spans)
        if missing_s > 0:
            lost, taken_s = lost or reason, taken_s + missing_s
    for _, span in [] if device.is_cpu or _hurt(device) else spans:
        short, who, remedy = shortage(device.evidence.node(device.node_name), span)
        if short > 0:
            lost = lost or Disturbed(f"{_figures(finding)}while {who}", remedy, finding.from_s)
            taken_s += short * span.length_s
    faster = _faster(device, there, spans) if there and lost is None else None
    return _Taken(taken_s / length_s if length_s > 0 else 0.0, there, lost, faster)


def _faster(
    device: DeviceEvidence, there: Sequence[Stranger], spans: Sequence[tuple[str, Window]]
) -> float | None:
    """By what factor the rounds of one work without any stranger were faster than all, in these spans."""
    rounds = device.evidence.rounds(device.subject)
    inside = np.zeros(len(rounds), np.bool_)
    for stage, span in spans:
        begun = (rounds.t_s > span.from_s) & (rounds.begins_s < span.to_s)
        inside |= begun & rounds.same("stage", stage)
    every = rounds.only(inside & rounds.same("verified", True) & (rounds.seconds > 0))
    beside = np.zeros(len(every), np.bool_)
    for one in there:
        until_s = one.to_s + (OF_MEAN - 1) * (one.to_s - one.since_s)  # what it evicted and heated
        beside |= (every.t_s > one.since_s) & (every.begins_s < until_s)
    alone = every.only(~beside)
    if len(alone) < FEWEST_ROUNDS or len(np.unique(every.work_ids(device.evidence.kinds))) > 1:
        return None
    rates = [float(one.work.sum() / one.seconds.sum()) for one in (alone, every)]
    return rates[0] / rates[1] if rates[1] > 0 else None


def _hurt(device: DeviceEvidence) -> bool:
    """Whether something happened to it that no lack of CPU time explains."""
    return any("disturbed" not in event.data for event in device.events(*NOT_BY_STRANGERS, "worker_failed"))


def _figures(finding: Finding) -> str:
    if finding.measured is None or finding.limit is None:
        return ""
    return f"{finding.measured:.3g}, limit {finding.limit.value:.3g}, "


def _enough(finding: Finding, taken: Sequence[tuple[DeviceEvidence, _Taken]]) -> bool:
    """Whether the rate, or the sum of the devices' sustained rates, would be good without what was taken.

    Of a pause, which has no figure, no more than `limits.pause_s` may be left. Nothing else without a figure
    is a low rate.
    """
    if finding.measured is None or finding.limit is None:
        pause = taken[0][0].optional_limit(PAUSE_S)
        if not finding.over or finding.length_s is None or pause is None:
            return False
        return finding.length_s * (1 - taken[0][1].share) <= pause.value
    faster = taken[0][1].faster if len(taken) == 1 else None
    if faster is not None and finding.measured * faster < finding.limit.value:
        return False  # it was as slow while nobody was there
    if any(one.share >= 1 for _, one in taken):
        return True
    if len(taken) == 1:
        return finding.measured >= finding.limit.value * (1 - taken[0][1].share)
    rates = [(rate.tflops, one.share) for device, one in taken if (rate := rate_or_none(device)) is not None]
    return sum(rate / (1 - share) for rate, share in rates) >= finding.limit.value


def _holes(device: DeviceEvidence) -> Iterator[tuple[Disturbed, str | None, Window]]:
    """When a worker that others ended did nothing, from its last round before to its first one after.

    A loss is noticed late, but not by more than SEEN_BEFORE_S after what was waited for it.
    """
    rounds = device.evidence.rounds(device.subject)
    for loss, reason in device.losses_to_others():
        own = rounds.only(rounds.same("worker", loss.worker)) if loss.worker else rounds
        ends_s, begins_s = own.t_s, own.begins_s
        waited_s = loss.data.get("limit_s")
        late_s = SEEN_BEFORE_S + (waited_s if isinstance(waited_s, int | float) else 0.0)
        from_s = float(ends_s[ends_s <= loss.t_s].max(initial=loss.t_s - late_s))
        to_s = float(begins_s[begins_s > loss.t_s].min(initial=math.inf))
        yield reason, loss.worker, Window(from_s, to_s)


def _part(device: DeviceEvidence, worker: str | None, stage: str) -> float:
    """A worker's part of the device's work in a stage."""
    planned = device.planned_workers
    working = planned if device.evidence.kinds[stage].all_workers else planned[:1]
    return 1 / len(working) if worker in working else float(worker is None)


def _overlap_s(one: Window, other: Window) -> float:
    return max(0.0, min(one.to_s, other.to_s) - max(one.from_s, other.from_s))


def _during(finding: Finding, stage: Window) -> list[Window]:
    """The parts of a stage in which the figure was measured, or else in which the trouble lasted."""
    from_s = -math.inf if finding.from_s is None else finding.from_s
    length_s = math.inf if finding.length_s is None else finding.length_s
    spans = [Window(*one) for one in finding.over] or [Window(from_s, from_s + length_s)]
    within = (Window(max(stage.from_s, one.from_s), min(stage.to_s, one.to_s)) for one in spans)
    return [one for one in within if one.length_s > 0]


def _computed(device: DeviceEvidence, stranger: Stranger) -> bool:
    """Whether it used the SMs; if the driver does not report that, it may have."""
    limit = device.limit(STRANGER_SM_PERCENT).value
    return stranger.most_percent is None or stranger.most_percent > limit
