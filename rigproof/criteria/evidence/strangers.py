"""Strangers: foreign processes that started, grew or computed on a device while it was under test.

What they took is not the card's fault: `slowed_by`, `crowded_by` and `crashed_by` decide whether a stranger
explains a criterion's failure or warning. Only a stranger that was there at the time explains anything, no
more than it can have taken in that time, and none explains what a stranger cannot cause: a wrong result, a
killed worker, a lost card. Nor does a worker that others ended explain more than the work that is missing.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rigproof.criteria.criterion import Disturbed, Finding, NotApplicable, NotMeasured, Trouble
from rigproof.criteria.evidence.cpu_use import shortage
from rigproof.criteria.evidence.devices import LOSSES, DeviceEvidence
from rigproof.criteria.evidence.events import NO_MEMORY, SEEN_BEFORE_S
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.lives import Foreign, Life, State, foreign_lives, lives_of
from rigproof.criteria.evidence.rates import rate_or_none
from rigproof.criteria.evidence.tasks import FREE, WANTED, amount_mib
from rigproof.criteria.evidence.windows import Window
from rigproof.profiles.planning.room import IDLE_MIB, room_of
from rigproof.records.measurements import Event
from rigproof.records.processes import (
    MIB_PER_GIB,
    READINGS,
    GpuProcess,
    ProcessLimits,
    ProcessWatch,
    holding,
    process_text,
)
from rigproof.records.verdict import figure

RUN_ALONE = "end what holds memory of that card, and run again"
LISTS = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses")
# As torch words them when memory ran out.
CAPACITY = re.compile(r"total capacity of (\d+(?:\.\d+)?) ([KMGT]iB)")
OWN = re.compile(r"this process has (\d+(?:\.\d+)?) ([KMGT]iB) memory in use")
LONGEST_GAP_S = 10.0  # between two readings of the process list, normally a second apart
AT_THE_TIME_S = 3.0  # the list is read every second, and a process takes a while to end after its error
# The share of a rate that a stranger can have taken is that of the time while it was there, if it took all of
# the card. Of a mean (`Finding.over`) a quarter more, since what it evicted and heated outlasts it; a median,
# such as that of a quarter of a stage, is lost with half of its time. When a stranger came and went is known
# to a second, which counts as time while it was there: so in a short stage less is left to the card.
OF_MEAN, OF_MEDIAN = 1.25, 2.0
# Failures of the card, the worker or the rig itself, whatever strangers were there.
NOT_BY_STRANGERS = (
    *("wrong_result", "worker_died", "worker_hung", "agent_died", "node_lost"),
    *("gpu_lost", "gpu_missing", "gpu_taken", "gpu_skipped"),
)


@dataclass(frozen=True, slots=True)
class Stranger:
    """A foreign process that was seen to disturb the run, from `from_s` to `to_s` (infinity: it stayed).

    `since_s`: when it can have begun to, as the list is read about once a second. `most_mib` and
    `most_percent` (of the SMs) are the highest values reported since then, or None.
    """

    pid: int
    user: str | None
    name: str | None
    from_s: float
    to_s: float
    since_s: float
    most_mib: float | None
    most_percent: float | None
    graphics: bool

    @property
    def only_warns(self) -> bool:
        """Whether it draws a desktop, or has a context without memory or work: rates show what that costs."""
        return self.graphics or (self.most_mib == 0 and self.most_percent == 0)

    @property
    def who(self) -> str:
        """`pid 5263 (python3, user ml)`."""
        return process_text(self.pid, self.name, self.user)

    @property
    def when(self) -> str:
        """`from t=31 s to t=52 s`."""
        return f"from t={self.from_s:.0f} s" + (f" to t={self.to_s:.0f} s" if self.to_s < math.inf else " on")

    @property
    def took(self) -> str:
        """`1.20 GiB, up to 48 % of the SMs`; empty if nothing is known."""
        parts = []
        if self.most_mib is not None:
            parts.append(figure(self.most_mib / MIB_PER_GIB, "GiB"))
        if self.most_percent is not None and self.most_percent >= 1:
            parts.append(f"up to {self.most_percent:.0f} % of the SMs")
        return ", ".join(parts)

    def near(self, t_s: float) -> bool:
        """Whether it was there at that moment, within AT_THE_TIME_S."""
        return self.from_s - AT_THE_TIME_S <= t_s <= self.to_s + AT_THE_TIME_S

    def inside_s(self, window: Window) -> float:
        """How long it can have been there in that time, at most."""
        return max(0.0, min(self.to_s, window.to_s) - max(self.since_s, window.from_s))


def strangers_of(device: DeviceEvidence) -> tuple[Stranger, ...]:
    """All strangers of a device, in the order in which they disturbed.

    Raises NotMeasured if its processes were not watched, NotApplicable if the driver does not list them.
    """
    return device.kept("strangers", lambda: _strangers(device))


def require_watched(device: DeviceEvidence) -> None:
    """NotMeasured if a stranger could have been missed: the processes must have been watched all the time."""
    watch, load = _watch(device), _load(device)
    if watch.from_s > load.from_s:
        raise NotMeasured(f"its processes were only watched from t={watch.from_s:.0f} s on")
    if not watch.t_s >= load.to_s - LONGEST_GAP_S:
        cause = device.cause()
        why = f"its processes were only watched until t={watch.t_s:.0f} s"
        raise NotMeasured(why + (f": {cause}" if cause else ""))
    if not watch.longest_gap_s <= LONGEST_GAP_S:
        raise NotMeasured(f"its processes were not watched for {watch.longest_gap_s:.0f} s")


def holders_at(device: DeviceEvidence, t_s: float) -> str:
    """The foreign processes that held memory of the device at a moment, the largest first; empty if none."""
    return holding(_held_at(device, t_s))


def _held_at(device: DeviceEvidence, t_s: float) -> list[GpuProcess]:
    """The foreign processes at a moment, each as it was when it held the most."""
    try:
        foreign = _foreign(device)
    except NotMeasured:
        return []
    near = [
        max(states, key=lambda one: one.used_mib or 0.0)
        for life in foreign.lives
        if (states := life.around(t_s - AT_THE_TIME_S, t_s + AT_THE_TIME_S))
    ]
    return near if foreign.named else [replace(one, user=None, name=None) for one in near]


# What a stranger explains


def slowed_by(about: DeviceEvidence | Evidence, trouble: Trouble) -> str | None:
    """Explains a low rate if strangers that computed at the time can have taken what it lacks.

    How much of the SMs they used is not asked: a few can fill the link, or the memory's bandwidth. Or it is
    explained if one left too little memory for the work. Raises Disturbed if others ended a worker, or kept
    it from starting, and the work that it did not do is what the rate lacks; or if they left a GPU's host so
    much less CPU time than the run needs.
    """
    devices = about.devices if isinstance(about, Evidence) else (about,)
    taken = [(device, _taken(device, trouble)) for device in devices]
    if _enough(trouble.finding, taken):
        for _, one in taken:
            if one.lost is not None:
                raise one.lost
            if one.strangers:
                return _explanation(one.strangers, "computed on this card")
    return next(filter(None, (_ran_short(device, trouble) for device in devices)), None)


@dataclass(frozen=True, slots=True)
class _Taken:
    """What others can have taken of a device's work at a time, at most: its share, who, and a lost worker."""

    share: float
    strangers: tuple[Stranger, ...]
    lost: Disturbed | None


def _taken(device: DeviceEvidence, trouble: Trouble) -> _Taken:
    finding, stages = trouble.finding, _stages(device, trouble)
    spans = [(name, one) for name, stage in stages.items() for one in _during(finding, stage)]
    length_s = sum(one.length_s for _, one in spans)
    there = tuple(
        one
        for one in _suspects(device, stages.values())
        if _computed(device, one) and any(one.inside_s(span) > 0 for _, span in spans)
    )
    computed_s = sum(one.inside_s(span) for one in there for _, span in spans)
    taken_s = (OF_MEAN if finding.over else OF_MEDIAN) * computed_s
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
    return _Taken(taken_s / length_s if length_s > 0 else 0.0, there, lost)


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
        pause = taken[0][0].optional_limit("pause_s")
        left_s = (finding.length_s or 0.0) * (1 - taken[0][1].share)
        return bool(finding.over) and pause is not None and left_s <= pause.value
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


def _ran_short(device: DeviceEvidence, trouble: Trouble) -> str | None:
    """Explains a low rate if strangers, or others, held the memory that the work needed."""
    ooms = device.events("oom")
    suspects = _suspects(device, _stages(device, trouble).values())
    crowding = [one for one in suspects if any(one.near(event.t_s) for event in ooms)]
    if crowding:
        return _explanation(crowding, "held memory that the work needed")
    return _short_for_others(device)


def crowded_by(device: DeviceEvidence, trouble: Trouble) -> str | None:
    """Explains a lack of memory if a stranger held some at the time, or others held what was missing."""
    moment_s = trouble.finding.from_s
    suspects = _suspects(device, _stages(device, trouble).values())
    holding = [one for one in suspects if moment_s is None or one.near(moment_s)]
    return _explanation(holding, "held memory of this card") if holding else _short_for_others(device)


def for_want_of_memory(rig: Evidence, loss: Event) -> Event:
    """A worker's failed task, marked as no fault of the rig if others held the memory that it had to have.

    The worker itself has to have run out of memory before, and its error to say so.
    """
    told = "MemoryError" in loss.message or NO_MEMORY in loss.message
    devices = [one for one in rig.devices if one.subject == loss.subject]
    if loss.kind != "worker_failed" or "disturbed" in loss.data or not (told and devices):
        return loss
    device = devices[0]
    ooms = [one for one in device.events("oom") if one.worker == loss.worker and one.t_s <= loss.t_s]
    holding = [] if device.events(*NOT_BY_STRANGERS) else _known(device)
    crowding = [one for one in holding if any(one.near(oom.t_s) for oom in ooms)]
    why = _explanation(crowding, "held memory of this card") if crowding else _short_for_others(device)
    if not ooms or why is None:
        return loss
    return replace(loss, message=f"{loss.message}; {why}", data=loss.data | {"disturbed": RUN_ALONE})


def _short_for_others(device: DeviceEvidence) -> str | None:
    """Explains that memory ran out if each time others held at least as much as was asked for.

    They need not be strangers: they may have been there before the run, or belong to another container,
    whose processes the driver does not list here.
    """
    ooms = device.events("oom")
    if not ooms or device.events(*NOT_BY_STRANGERS) or _failed_by_itself(device):
        return None
    for event in ooms:
        wanted_mib, others_mib = amount_mib(WANTED, event.message), _others_mib(device, event)
        if wanted_mib is None or others_mib < max(wanted_mib, IDLE_MIB):
            return None
    first = ooms[0]
    who = holders_at(device, first.t_s)
    if not who:
        who = f"others hold {figure(_others_mib(device, first) / MIB_PER_GIB, 'GiB')}"
    return f"memory ran out at t={first.t_s:.0f} s while {who} of this card"


def _others_mib(device: DeviceEvidence, oom: Event) -> float:
    """What others held of the card as memory ran out, as far as it is known, MiB.

    By the driver's list of processes; and by torch, which says how large the card is, what is free and what
    its own process holds: all else is others', less the driver's reserve and what the plan gives the card's
    other workers.
    """
    listed_mib = sum(one.used_mib or 0.0 for one in _held_at(device, oom.t_s))
    total_mib, free_mib, own_mib = (amount_mib(one, oom.message) for one in (CAPACITY, FREE, OWN))
    foreign = device.foreign_memory
    if total_mib is None or free_mib is None or own_mib is None or foreign is None:
        return listed_mib
    beside = [one for one in device.evidence.plan.workers_of(device.subject) if one.worker != oom.worker]
    room = room_of(beside, device.identity, foreign)
    usable_mib = min(total_mib, room.total_mib - room.reserved_mib)
    return max(listed_mib, usable_mib - room.planned_mib - room.contexts_mib - free_mib - own_mib)


def crashed_by(device: DeviceEvidence, _trouble: Trouble) -> str | None:
    """Explains Xids of program errors if each of them ended a stranger and none of our workers."""
    xids = device.events("xid")
    culprits = []
    for event in xids:
        ended = [one for one in _known(device) if abs(one.to_s - event.t_s) <= AT_THE_TIME_S]
        lost = [one for one in device.events(*LOSSES) if one.t_s >= event.t_s - AT_THE_TIME_S]
        code = event.data.get("xid")
        known = device.evidence.loaded.xids.xids.get(code) if isinstance(code, int) else None
        if known is None or known.outcome != "program" or not ended or lost:
            return None
        culprits.append(ended[0])
    if not culprits:
        return None
    return _explanation(list(dict.fromkeys(culprits)), "ended with an error of its own, here")


def _known(device: DeviceEvidence) -> tuple[Stranger, ...]:
    """The strangers that are known; if they could not be watched, a failure remains the card's."""
    try:
        return strangers_of(device)
    except NotMeasured:
        return ()


def _suspects(device: DeviceEvidence, stages: Iterable[Window]) -> list[Stranger]:
    """The strangers that were about in one of these stages; none if something else is to blame."""
    if device.events(*NOT_BY_STRANGERS) or _failed_by_itself(device):
        return []
    around = [Window(one.from_s - AT_THE_TIME_S, one.to_s + AT_THE_TIME_S) for one in stages]
    return [one for one in _known(device) if any(one.inside_s(each) > 0 for each in around)]


def _stages(device: DeviceEvidence, trouble: Trouble) -> dict[str, Window]:
    """The stages that were judged, and ran; only the one in which the trouble began, if that is said."""
    evidence, from_s = device.evidence, trouble.finding.from_s
    ran = {one: evidence.whole_window(one) for one in trouble.stages if one in evidence.recording.stages}
    here = {name: one for name, one in ran.items() if from_s is not None and one.from_s <= from_s < one.to_s}
    return here or ran


def _during(finding: Finding, stage: Window) -> list[Window]:
    """The parts of a stage in which the figure was measured, or else in which the trouble lasted."""
    from_s = -math.inf if finding.from_s is None else finding.from_s
    length_s = math.inf if finding.length_s is None else finding.length_s
    spans = [Window(*one) for one in finding.over] or [Window(from_s, from_s + length_s)]
    within = (Window(max(stage.from_s, one.from_s), min(stage.to_s, one.to_s)) for one in spans)
    return [one for one in within if one.length_s > 0]


def _failed_by_itself(device: DeviceEvidence) -> bool:
    """Whether a worker's task failed for another reason than a lack of memory."""
    return bool(device.events("worker_failed")) and not device.events("oom")


def _computed(device: DeviceEvidence, stranger: Stranger) -> bool:
    """Whether it used the SMs; if the driver does not report that, it may have."""
    limit = device.limit("stranger_sm_percent").value
    return stranger.most_percent is None or stranger.most_percent > limit


def _explanation(strangers: Sequence[Stranger], did: str) -> str:
    first = strangers[0]
    took = f" ({first.took})" if first.took else ""
    more = f", and {len(strangers) - 1} more" if len(strangers) > 1 else ""
    return f"{first.who} {did} {first.when}{took}{more}"


# Which processes are strangers


def _strangers(device: DeviceEvidence) -> tuple[Stranger, ...]:
    watch, foreign, load = _watch(device), _foreign(device), _load(device)
    limits = ProcessLimits(
        device.limit("stranger_growth_mib").value, device.limit("stranger_sm_percent").value
    )
    found: list[Stranger] = []
    for life in foreign.lives:
        if not life.around(load.from_s, load.to_s):
            continue
        from_s = _disturbs_from_s(life, load, _begin_s(device), limits)
        if from_s is not None:
            # Old ones are seen to compute by the mean of READINGS readings.
            unseen = 1 if from_s == life.from_s else READINGS
            since_s = from_s - unseen * watch.longest_gap_s
            found.append(_stranger(life, foreign, from_s, since_s))
    if not found and not watch.sm_readable:
        _require_known_sm_use(foreign, load)
    return tuple(sorted(found, key=lambda one: (one.from_s, one.pid)))


def _require_known_sm_use(foreign: Foreign, load: Window) -> None:
    """NotApplicable if a foreign process was there before the run, and SM use per process is not reported."""
    for life in foreign.lives:
        if not life.last.graphics and life.around(load.from_s, load.to_s):
            who = _stranger(life, foreign, life.from_s, life.from_s).who
            raise NotApplicable(
                f"{who} was there before the run, and the driver does not report which process uses the SMs"
            )


def _begin_s(device: DeviceEvidence) -> float:
    """The time before which none of our workers was started: processes seen by then predate the run."""
    foreign, from_s = device.foreign_memory, _watch(device).from_s
    return from_s if foreign is None else max(from_s, foreign.t_s)


def _disturbs_from_s(life: Life, load: Window, begin_s: float, limits: ProcessLimits) -> float | None:
    """When a foreign process begins to disturb; None if it does not.

    One that computes disturbs from its start. One that draws a desktop, or was there before the run, disturbs
    from the time when it has grown too much or uses too much of the SMs.
    """
    is_new = life.from_s > begin_s
    if is_new and not life.last.graphics:
        return life.from_s
    at_first_mib = 0.0 if is_new else life.states[0].process.used_mib

    def disturbs(state: State) -> bool:
        process = state.process
        if state.to_s < load.from_s or state.from_s > load.to_s:
            return False
        if process.sm_percent is not None and process.sm_percent > limits.sm_percent:
            return True
        if process.used_mib is None or at_first_mib is None:
            return False
        return process.used_mib - at_first_mib > limits.growth_mib

    return next((one.from_s for one in life.states if disturbs(one)), None)


def _stranger(life: Life, foreign: Foreign, from_s: float, since_s: float) -> Stranger:
    since = [state.process for state in life.states if state.to_s >= from_s]
    return Stranger(
        pid=life.pid,
        user=life.last.user if foreign.named else None,
        name=life.last.name if foreign.named else None,
        from_s=from_s,
        to_s=life.to_s,
        since_s=since_s,
        most_mib=_most(one.used_mib for one in since),
        most_percent=_most(one.sm_percent for one in since),
        graphics=life.last.graphics,
    )


def _most(values: Iterable[float | None]) -> float | None:
    return max((one for one in values if one is not None), default=None)


def _foreign(device: DeviceEvidence) -> Foreign:
    def made() -> Foreign:
        records = _by_device(device.evidence).get(device.subject, ())
        return foreign_lives(device, lives_of(records), _begin_s(device))

    return device.kept("foreign processes", made)


def _by_device(evidence: Evidence) -> Mapping[str, list[GpuProcess]]:
    def made() -> dict[str, list[GpuProcess]]:
        found: dict[str, list[GpuProcess]] = defaultdict(list)
        for one in evidence.recording.processes:
            found[one.subject].append(one)
        return found

    return evidence.kept("processes", made)


def _watch(device: DeviceEvidence) -> ProcessWatch:
    watch = device.evidence.recording.process_watches.get(device.subject)
    if watch is None:
        cause = device.cause()
        raise NotMeasured("its processes were not watched" + (f": {cause}" if cause else ""))
    if watch.readings < 1:
        for event in device.events("nvml_error"):
            if event.data.get("query") in LISTS:
                raise NotMeasured(f"its processes could not be listed: {event.message}")
        raise NotApplicable(
            "the driver does not list the processes of this card here (a vGPU, no permission)"
        )
    return watch


def _load(device: DeviceEvidence) -> Window:
    """From the beginning of the first stage to the end of the last one."""

    def made() -> Window:
        stages = device.evidence.recording.stages.values()
        if not stages:
            raise NotMeasured("no stage ran")
        ends_s = [math.inf if one.end_s is None else one.end_s for one in stages]
        return Window(min(one.start_s for one in stages), max(ends_s))

    return device.evidence.kept("all stages", made)
