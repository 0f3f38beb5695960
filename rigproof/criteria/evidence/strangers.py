"""Strangers: foreign processes that started, grew or computed on a device while it was under test.

What they took is not the card's fault: slowed.py and want_of_memory.py decide whether a stranger explains a
criterion's failure or warning. Only a stranger that was there at the time explains anything, and none
explains what a stranger cannot cause: a wrong result, a killed worker, a lost card.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rigproof.criteria.criterion import NotApplicable, NotMeasured, Trouble
from rigproof.criteria.evidence.devices import LOSSES, DeviceEvidence
from rigproof.criteria.evidence.lives import Foreign, Life, State, foreign_lives, lives_of
from rigproof.criteria.evidence.windows import Window
from rigproof.profiles.tables.limits import LIMITS
from rigproof.records.grouping import grouped
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

STRANGER_GROWTH_MIB = LIMITS.key(lambda limits: limits.stranger_growth_mib)
STRANGER_SM_PERCENT = LIMITS.key(lambda limits: limits.stranger_sm_percent)

LISTS = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses")
LONGEST_GAP_S = 10.0  # between two readings of the process list, normally a second apart
AT_THE_TIME_S = 3.0  # the list is read every second, and a process takes a while to end after its error
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
    return device.cached("strangers", lambda: _strangers(device))


def require_watched(device: DeviceEvidence) -> None:
    """NotMeasured if a stranger could have been missed: the processes must have been watched all the time."""
    watch, load = _watch(device), _load(device)
    if watch.from_s > load.from_s:
        raise NotMeasured(f"its processes were only watched from t={watch.from_s:.0f} s on")
    if not watch.t_s >= load.to_s - LONGEST_GAP_S:
        raise device.unmeasured(f"its processes were only watched until t={watch.t_s:.0f} s")
    if not watch.longest_gap_s <= LONGEST_GAP_S:
        raise NotMeasured(f"its processes were not watched for {watch.longest_gap_s:.0f} s")


def holders_at(device: DeviceEvidence, t_s: float) -> str:
    """The foreign processes that held memory of the device at a moment, the largest first; empty if none."""
    return holding(held_at(device, t_s))


def held_at(device: DeviceEvidence, t_s: float) -> list[GpuProcess]:
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


# Who can have caused a trouble


def crashed_by(device: DeviceEvidence, _trouble: Trouble) -> str | None:
    """Explains Xids of program errors if each of them ended a stranger and none of our workers."""
    xids = device.events("xid")
    culprits = []
    for event in xids:
        ended = [one for one in known_strangers(device) if abs(one.to_s - event.t_s) <= AT_THE_TIME_S]
        lost = [one for one in device.events(*LOSSES) if one.t_s >= event.t_s - AT_THE_TIME_S]
        code = event.data.get("xid")
        known = device.evidence.loaded.xids.xids.get(code) if isinstance(code, int) else None
        if known is None or known.outcome != "program" or not ended or lost:
            return None
        culprits.append(ended[0])
    if not culprits:
        return None
    return explanation(list(dict.fromkeys(culprits)), "ended with an error of its own, here")


def known_strangers(device: DeviceEvidence) -> tuple[Stranger, ...]:
    """The strangers that are known; if they could not be watched, a failure remains the card's."""
    try:
        return strangers_of(device)
    except NotMeasured:
        return ()


def suspects(device: DeviceEvidence, stages: Iterable[Window]) -> list[Stranger]:
    """The strangers that were about in one of these stages; none if something else is to blame."""
    if device.events(*NOT_BY_STRANGERS) or failed_by_itself(device):
        return []
    around = [Window(one.from_s - AT_THE_TIME_S, one.to_s + AT_THE_TIME_S) for one in stages]
    return [one for one in known_strangers(device) if any(one.inside_s(each) > 0 for each in around)]


def stages_of(device: DeviceEvidence, trouble: Trouble) -> dict[str, Window]:
    """The stages that were judged, and ran; only the one in which the trouble began, if that is said."""
    evidence, from_s = device.evidence, trouble.finding.from_s
    ran = {one: evidence.whole_window(one) for one in trouble.stages if one in evidence.recording.stages}
    here = {name: one for name, one in ran.items() if from_s is not None and one.from_s <= from_s < one.to_s}
    return here or ran


def failed_by_itself(device: DeviceEvidence) -> bool:
    """Whether a worker's task failed for another reason than a lack of memory."""
    return bool(device.events("worker_failed")) and not device.events("oom")


def explanation(strangers: Sequence[Stranger], did: str) -> str:
    """`pid 5263 (python3, user ml) computed on this card from t=31 s on (1.20 GiB), and 2 more`."""
    first = strangers[0]
    took = f" ({first.took})" if first.took else ""
    more = f", and {len(strangers) - 1} more" if len(strangers) > 1 else ""
    return f"{first.who} {did} {first.when}{took}{more}"


# Which processes are strangers


def _strangers(device: DeviceEvidence) -> tuple[Stranger, ...]:
    watch, foreign, load = _watch(device), _foreign(device), _load(device)
    limits = ProcessLimits(device.limit(STRANGER_GROWTH_MIB).value, device.limit(STRANGER_SM_PERCENT).value)
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
        evidence = device.evidence
        seen = evidence.cached(
            "processes", lambda: grouped(evidence.recording.processes, lambda one: one.subject)
        )
        records = seen.get(device.subject, ())
        return foreign_lives(device, lives_of(records), _begin_s(device))

    return device.cached("foreign processes", made)


def _watch(device: DeviceEvidence) -> ProcessWatch:
    watch = device.evidence.recording.process_watches.get(device.subject)
    if watch is None:
        raise device.unmeasured("its processes were not watched")
    if watch.readings < 1:
        for event in device.events("nvml_error"):
            if event.data.get("query") in LISTS:
                raise NotMeasured(f"its processes could not be listed: {event.message}")
        raise NotApplicable(
            "the driver does not list the processes of this card here (a vGPU, no permission)"
        )
    return watch


def _load(device: DeviceEvidence) -> Window:
    """The time under load: from the beginning of the first stage to the end of the last one."""

    def made() -> Window:
        stages = device.evidence.recording.stages.values()
        if not stages:
            raise NotMeasured("no stage ran")
        ends_s = [math.inf if one.end_s is None else one.end_s for one in stages]
        return Window(min(one.start_s for one in stages), max(ends_s))

    return device.evidence.cached("all stages", made)
