"""Whose CPU time it was, second by second: this run's own, what others took, and what was withheld.

REJECTED is said of the rig alone. A band that is missed because a hypervisor, another program or the quota
of a container took the CPU is not the rig's failure, so each second is asked whether that explains it. Nor
is a wait that passed its deadline while they left the host next to nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from rigproof.criteria.evidence.events import RANKS
from rigproof.criteria.evidence.nodes import NodeEvidence
from rigproof.criteria.evidence.windows import LONGEST_S, Window
from rigproof.profiles.planning.subjects import RIG
from rigproof.records.measurements import Event
from rigproof.records.samples import HostSample

if TYPE_CHECKING:  # evidence marks waits by these
    from rigproof.criteria.evidence.evidence import Evidence

WINDOW_S = 1.0
# Of a host's samples: with more, the run got the CPU time that it asked for. Beside hogs at nice -20 one in
# thirty came, on a host that was merely full all of them. It says what can be known: no limit of a rig.
IN_TIME = 0.5
# Of what the run needs: a host that fell silent after a second in which others took as much had no more CPU
# time to tell of. Hogs can take all of it within the second that its agent needs to pass its samples on.
MOST = 0.5
TOLD_PERCENT = 1.0  # who took less is not worth a word
TOLD_SHARE = 0.25  # nor, beside somebody who took most, who took less than that of it: the kernel always does
REPORTED = ("own_percent", "foreign_percent", "short_cpus")
# Between the loss of a node and that of its agent, as Ray reports one loss: no limit of a rig.
TOGETHER_S = 5.0
UNSEEN = "none that can be seen from here: the kernel, or another container"
REMEDIES = {
    "stolen": "ask the provider for dedicated CPUs, or run again while the host's other guests are quiet",
    "throttled": "lift the CPU quota of this container (`cpu.max`, `docker run --cpus=…`), and run again",
    "others": "end these programs, or wait until they have ended, and run again",
}


@dataclass(frozen=True, slots=True)
class CpuSecond:
    """Means of one second, or of a wait, in % of the CPUs that the node can use.

    `used`: by everybody, and stolen. `own`: by this run's processes; None if that was not recorded. `stolen`
    by a hypervisor, `throttled` by a quota; `crowded`: of a quota, what others outside of it left no CPU for.
    These are 0 if they were not recorded. `told`: whether it was recorded who else may have taken some.
    `waited`: of the time, by this run's workers for a CPU; None if that was not recorded.
    """

    from_s: float
    used: float
    own: float | None = None
    stolen: float = 0.0
    throttled: float = 0.0
    crowded: float = 0.0
    told: bool = True
    waited: float | None = None

    @property
    def others(self) -> float:
        """What neither this run used nor a hypervisor took: other programs, and the kernel."""
        beside = 0.0 if self.own is None else max(0.0, self.used - self.stolen - self.own)
        return self.crowded + beside

    @property
    def left(self) -> float:
        """What others left to this run, used or not; of a quota, the part that it did not withhold.

        All that was used may be others' where it was not recorded whose it was.
        """
        if self.own is None:
            return max(0.0, 100 - self.used - self.crowded)
        free = max(0.0, 100 - self.stolen - self.others)
        return free * self.used / (self.used + self.throttled) if self.throttled > 0 else free

    def hogged(self, high: float) -> bool:
        """Whether others, or a quota, left less of the CPU than what is over the band's high end."""
        return self.used + self.crowded > high and (
            self.throttled >= TOLD_PERCENT or (self.own is not None and self.own <= high)
        )

    def explained(self, low: float, high: float) -> bool:
        """Whether the second would be inside the band, or may be, had nobody taken CPU time from this run.

        Over the band: this run's own part is not over it; or a quota, of which `used` is a share, was reached
        for more than a moment: it withheld TOLD_PERCENT.
        Under the band: with what was taken added once more, it would not be under it. `used` has it once,
        since the load gives way to it; and the load's threads lose up to as much again, since their slots end
        before they got their share: where a hypervisor took 17 %, a load that wanted 66.5 % got 52.9 %.
        """
        if self.used > high:
            return self.hogged(high)
        return self.used + self.stolen + self.throttled + self.others >= low


def cpu_seconds(node: NodeEvidence, window: Window) -> list[CpuSecond]:
    """The whole seconds of a window that have samples of the CPU."""
    slices = window.slices(WINDOW_S)
    names = ("cpu_percent", "own_percent", "stolen_percent", "throttled_percent", "crowded_percent")
    columns = [node.readings(name, window).by_slice(slices) for name in names]
    return [
        CpuSecond(
            from_s=piece.from_s,
            used=fmean(used),
            own=fmean(own) if own else None,
            stolen=fmean(stolen or [0.0]),
            throttled=fmean(throttled or [0.0]),
            crowded=fmean(crowded or [0.0]),
            told=bool(own and stolen),
        )
        for piece, used, own, stolen, throttled, crowded in zip(slices, *columns, strict=True)
        if used
    ]


def excused(evidence: "Evidence", wait: Event) -> Event:
    """A wait that passed its deadline, marked if others left its node too little CPU.

    `data.meanwhile` has who took it, `data.disturbed` what to do about that. Too little is less than
    `cpu.starved_percent` of what this run needs, on average over the time that was waited: of 128 CPUs of
    which others use 95 %, there are six left for two processes. And its samples came late: on a host that
    others merely fill, a run that hangs uses nothing, and would get what it asks for. If none came any more,
    it is enough that others took MOST of that in the second before. A rank that was silent, or left alone,
    may have been slow: it is enough that others kept MOST of what this run needs from its workers. A head
    that does not answer may be on any of them. An agent that goes with such a node is marked like it.
    """
    limit_s, own = wait.data.get("limit_s"), (wait.worker or wait.subject).partition("/")[0]
    if "disturbed" in wait.data:
        return wait
    if wait.kind == "agent_died" and limit_s is None:
        gone = (one for one in evidence.events.of(own, "node_lost") if abs(one.t_s - wait.t_s) <= TOGETHER_S)
        marks = next((one.data for one in gone if "disturbed" in one.data), {})
        return replace(wait, data=wait.data | marks)
    if not isinstance(limit_s, int | float):
        return wait
    for node in [one for one in evidence.nodes if own in (one.subject, RIG)]:
        window = Window(wait.t_s - limit_s, wait.t_s)
        missing, who, remedy = shortage(node, window) if wait.kind in RANKS else (0.0, "", "")
        if missing < MOST:
            who, remedy = _hoggers(node, window)
        if who:
            marks = {"meanwhile": who, "disturbed": remedy}
            words = "" if wait.kind in RANKS else f"; meanwhile {who}"  # the verdict on their group says it
            return replace(wait, message=wait.message + words, data=wait.data | marks)
    return wait


def _hoggers(node: NodeEvidence, window: Window) -> tuple[str, str]:
    """Who left next to no CPU to a node that fell silent, and what to do about that; empty if nobody did."""
    least = node.cpu.starved_percent or 0.0
    times_s = node.evidence.samples(HostSample, node.subject).column("t_s")
    if least > 0 and not (times_s > window.from_s).any():
        least = max(least, 100 * (1 - MOST))
    whole = _meanwhile(node, window.from_s, window.to_s)
    if whole is None or not whole.left < least * _needed(node):
        return "", ""
    if _share_in_time(node, window.from_s, window.to_s) >= IN_TIME:
        return "", ""
    who, remedy = taken(node, [whole])
    if whole.own is None:
        who, remedy = "by whom the rest was used is not in this recording", REMEDIES["others"]
    return f"others left {whole.left:.2g} % of the CPU of {node.subject}: {who}", remedy


def shortage(node: NodeEvidence, window: Window) -> tuple[float, str, str]:
    """The share of the CPU time that this run needed in a window and others did not leave it: 0 to 1.

    With who took it, and what to do about that. 0 up to `cpu.stolen_warn_percent`, where they took less than
    was left unused, and where it is not known; 1 if they left less than `cpu.starved_percent`. But for
    what a hypervisor or a quota took, not more than the share of the time that its workers waited for a CPU:
    programs of a low priority fill a host, and let it have all that it asks for.
    """
    whole = _meanwhile(node, *window[:2])
    if whole is None or whole.own is None:
        return 0.0, "", ""
    needed = 100 * _needed(node)
    missing = 1 - whole.left / needed
    if whole.waited is not None:
        missing = min(missing, whole.waited / 100 + (whole.stolen + whole.throttled) / needed)
    took = whole.stolen + whole.throttled + whole.others
    if took <= 100 - whole.used or 100 * missing <= (node.cpu.stolen_warn_percent or 0.0):
        return 0.0, "", ""
    if 100 * missing > 100 - (node.cpu.starved_percent or 0.0):
        missing = 1.0
    who, remedy = taken(node, [whole])
    return missing, f"others left {whole.left:.2g} % of the CPU of {node.subject}: {who}", remedy


def _needed(node: NodeEvidence) -> float:
    """The share of the node's CPUs that this run needs: one for each worker, and one for all else.

    All of them, if the CPU is the device, or how many there are is not known.
    """
    if not node.found or not node.identity.cpus > 0 or any(one.is_cpu for one in node.devices):
        return 1.0
    return min(1.0, (1 + sum(one.device.gpu.workers for one in node.devices)) / node.identity.cpus)


def _share_in_time(node: NodeEvidence, from_s: float, to_s: float) -> float:
    """The share of the samples that were due in that time, by the grid, that the host has: 1 if none was.

    None is due from the last one of an agent that ended until the first one of its successor. One that did
    not answer, or that went with its node, may have had no CPU time: its samples are missing.
    """
    times_s = node.evidence.samples(HostSample, node.subject).column("t_s")
    own = [one for one in node.evidence.recording.events if one.subject == node.subject]
    lost_s = [one.t_s for one in own if one.kind == "node_lost"]
    ended_s = (
        one.t_s
        for one in own
        if one.kind == "agent_died"
        and "limit_s" not in one.data
        and all(abs(one.t_s - lost) > TOGETHER_S for lost in lost_s)
    )
    without = {
        (times_s[times_s <= t_s].max(initial=from_s), times_s[times_s > t_s].min(initial=to_s))
        for t_s in ended_s
    }
    due_s = to_s - from_s - sum(max(0.0, min(end, to_s) - max(begin, from_s)) for begin, end in without)
    came = np.count_nonzero((times_s > from_s) & (times_s <= to_s))
    due = due_s * node.evidence.rate_hz
    return float(came) / due if due >= 1 else 1.0


def _meanwhile(node: NodeEvidence, from_s: float, to_s: float) -> CpuSecond | None:
    """The means of a wait, as far as the node's samples tell; None if there are none.

    A sample says what happened since the one before it, however long that took: a host without free CPU time
    is sampled late. After the last one of all it is taken to have gone on as in the second before.
    """
    samples = node.evidence.samples(HostSample, node.subject)
    times_s = samples.column("t_s")
    if not len(times_s) or not 0 < to_s - from_s <= LONGEST_S or not times_s[-1] - times_s[0] <= LONGEST_S:
        return None
    begins_s = np.concatenate((times_s[:1], times_s[:-1]))
    weights = np.clip(np.minimum(times_s, to_s) - np.maximum(begins_s, from_s), 0.0, None)
    if to_s > times_s[-1]:
        latest = times_s > times_s[-1] - WINDOW_S
        weights[latest] += (to_s - max(from_s, times_s[-1])) / np.count_nonzero(latest)

    def mean(name: str) -> float | None:
        values = samples.column(name)
        known = np.isfinite(values) & (weights > 0)
        return float(np.average(values[known], weights=weights[known])) if known.any() else None

    used, own, stolen = mean("cpu_percent"), mean("own_percent"), mean("stolen_percent")
    if used is None:
        return None
    throttled, crowded = mean("throttled_percent") or 0.0, mean("crowded_percent") or 0.0
    waited = mean("own_waited_percent")
    return CpuSecond(from_s, used, own, stolen or 0.0, throttled, crowded, own is not None, waited)


def load_report(node: NodeEvidence) -> Event | None:
    """The CPU load's report at its end about itself and all others; None without one."""
    reports = [
        event
        for event in node.evidence.events.of(node.subject, "host_load")
        if all(isinstance(event.data.get(name), int | float) for name in REPORTED)
    ]
    return reports[-1] if reports else None


def taken(node: NodeEvidence, seconds: Sequence[CpuSecond]) -> tuple[str, str]:
    """Who took CPU time in these seconds, in words, who took most first; and what to do about that one."""
    most = sorted(_shares(seconds).items(), key=lambda one: one[1], reverse=True)
    least = max(TOLD_PERCENT, TOLD_SHARE * most[0][1])
    told = [(what, share) for what, share in most if share >= least] or most[:1]
    words = {
        "stolen": "a hypervisor took {:.0f} % of the CPU",
        "throttled": "a CPU quota withheld {:.0f} % of the CPU",
        "others": f"other programs took {{:.0f}} % of the CPU{foreign(node)}",
    }
    return ", ".join(words[what].format(share) for what, share in told), REMEDIES[told[0][0]]


def _shares(seconds: Sequence[CpuSecond]) -> dict[str, float]:
    return {name: fmean(getattr(one, name) for one in seconds) for name in ("stolen", "throttled", "others")}


def foreign(node: NodeEvidence) -> str:
    """The foreign processes that used most of the CPU under load, in brackets; empty if not recorded."""
    for event in reversed(node.events("host_load")):
        named = event.data.get("foreign")
        if isinstance(named, list | tuple):
            return f" ({', '.join(map(str, named)) or UNSEEN})"
    return ""


def users(node: NodeEvidence, seconds: Sequence[CpuSecond]) -> str:
    """Who used the CPU: `; rigproof's load used 20 %, its other processes 12 %, others 50 % (pid 7 …)`."""
    load = load_report(node)
    known = [one for one in seconds if one.own is not None]
    if load is None:
        return ""
    own = load.data["own_percent"]
    if not known:
        return f"; rigproof's load used {own:.0f} %, all other processes {load.data['foreign_percent']:.0f} %"
    shares = _shares(known)
    rest = max(0.0, fmean(one.own or 0.0 for one in known) - own)
    named = load.data.get("foreign")
    parts = [
        f"; rigproof's load used {own:.0f} %",
        f"its other processes {rest:.0f} %",
        f"others {shares['others']:.0f} %" + (foreign(node) if named else ""),
    ]
    parts += [f"a hypervisor took {shares['stolen']:.0f} %"] if shares["stolen"] >= TOLD_PERCENT else []
    return ", ".join(parts)
