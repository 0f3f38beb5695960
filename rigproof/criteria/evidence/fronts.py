"""Which rank kept a group from its end: read from how far each of them came. Pure.

Each rank that was stuck past its deadline, or whose process ended, has an event with its front: the step that
it had told last, by a number that is the same on all ranks, whether it was inside it, and how far.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Literal

from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.records.measurements import Event
from rigproof.records.message_text import not_loaded, telling_line

KILLED = -9  # the exit status of a process that SIGKILL ended: no card sends it
# What a rank says whose peer is gone: it is not the one to blame.
LEFT_ALONE = (
    "closed by peer",
    "reset by peer",
    "remote process exited",
    "Broken pipe",
    "ncclRemoteError",
    "Socket Closed",
    "failed to recv",
    "Connection timed out",
    "No route to host",
    "Network is unreachable",
)
SHOWN = 3  # ranks that a sentence names
How = Literal[
    "stuck",
    "died",
    "killed",
    "held",
    "starved",
    "failed",
    "shm",
    "memory",
    "limits",
    "unloaded",
    "lost",
    "unreached",
]
# What ran short on a rank's host, by what the rank says; the first one counts. NCCL has buffers in /dev/shm,
# which has 64 MiB in a container unless told otherwise (NVIDIA/nccl#290, #342, #525).
LACKING: dict[How, tuple[str, re.Pattern[str]]] = {
    "shm": ("shared memory", re.compile(r"creating shared memory segment|No space left on device")),
    "memory": (
        "memory",
        re.compile(r"MemoryError|out of memory|can(?:not|'t) allocate memory", re.IGNORECASE),
    ),
    "limits": (
        "files, threads or ports",
        re.compile(r"Too many open files|can't start new thread|EADDRINUSE|Address already in use"),
    ),
}
SENDER = "find out on {host} who sent the signal (`sudo dmesg`, batch system, earlyoom), and run again"
NEXT_STEPS: dict[How, str] = {
    "killed": SENDER,
    "held": SENDER,
    "shm": "start the container with `--shm-size=8g` or `--ipc=host`; else free /dev/shm on {host}",
    "memory": "free memory on that device, and run again",
    "limits": "see `ulimit -n`, `ulimit -u` and what else runs on {host}, and run again",
    "unloaded": "install what that Python lacks, change none of its files during a run, and run again",
    "unreached": "run `ping` from one of them to the other; see cables, switch, `sudo ufw status`",
}
STUCK = "read `sudo dmesg` and `nvidia-smi -q` on {host}"


@dataclass(frozen=True, slots=True)
class Halt:
    """What ended a group early. `missing`: the devices of the ranks that the others waited for, if known.

    `operation` and `mib`: of the step at the front. `remedy`: what to do, if it takes more than `how` to say.
    """

    how: How
    missing: tuple[str, ...]
    operation: str
    mib: int
    words: str
    t_s: float
    remedy: str = ""

    @property
    def next_step(self) -> str:
        """What to do about it."""
        if self.remedy:
            return self.remedy
        hosts = list(dict.fromkeys(one.partition("/")[0] for one in self.missing))
        host = "that host" if not hosts else " and ".join(hosts) if len(hosts) <= SHOWN else "each host"
        return NEXT_STEPS.get(self.how, STUCK).format(host=host)

    @property
    def by_others(self) -> bool:
        """Whether a signal did it, or CPU time, memory or code was lacking: no card or link does that."""
        return self.how in ("killed", "held", "starved", "unloaded", *LACKING)


def halt_of(
    team: SharedEvidence, stage: str, *, begin_s: float = -inf, end_s: float = inf, **which: str
) -> Halt | None:
    """What ended the group early in a stage; None if nothing did. `which`: the `data` of its ranks' events.

    That the crew itself failed, which has no such data, counts between `begin_s` and `end_s`, run time.
    """
    events = [one for one in team.events("rank_stuck", "rank_died", "crew_failed") if one.stage == stage]
    own = [one for one in events if one.kind != "crew_failed" or begin_s <= one.t_s < end_s]
    return halt(own, len(team.members), **which)


def halt(events: Iterable[Event], size: int, **which: str) -> Halt | None:
    """The same, from the events about a group of so many ranks in one stage."""
    found: dict[str, list[Event]] = {"rank_stuck": [], "rank_died": []}
    for one in events:
        if one.kind == "crew_failed":  # the other ranks are left alone then
            if one.data.get("size", size) == size:  # else it was a part of the group, tested by itself
                return _lost(one)
            continue
        if one.kind in found and all(one.data.get(key) == value for key, value in which.items()):
            found[one.kind].append(one)
    stuck, died = found["rank_stuck"], found["rank_died"]
    return (
        _death(died)
        or _hold(stuck)
        or _cut_off(stuck, died)
        or _missing(stuck, died, size)
        or _left_alone(died)
    )


def _lost(event: Event) -> Halt:
    """A worker is gone with its rank, or the group did not begin: other criteria judge why."""
    workers = event.data.get("workers")
    names = [str(one).rpartition("#")[0] for one in workers] if isinstance(workers, list) else []
    return Halt("lost", tuple(names), "", 0, event.message, event.t_s)


def _death(died: Sequence[Event]) -> Halt | None:
    """The ranks that died by themselves; those that were only left alone do not count."""
    causes = [one for one in died if not any(text in one.message for text in LEFT_ALONE)]
    if not causes:
        return None
    first = causes[0]
    status = first.data.get("status")
    if status == KILLED:
        causes = [one for one in causes if one.data.get("status") == KILLED]
        return _halt(
            "killed", causes, first, f"the process of {_ranks(causes)} was killed (signal 9) {_where(first)}"
        )
    error = first.message.partition(": ")[2]
    for lack, (what, said) in LACKING.items():
        if said.search(error):
            words = f"{what} ran short on {_ranks(causes)} {_where(first)}: {telling_line(error)}"
            return _halt(lack, causes, first, words)
    how: How = "unloaded" if not_loaded(error) else "failed" if status is None else "died"
    return _halt(how, causes, first, f"{_ranks(causes)} ended {_where(first)}: {telling_line(error)}")


def _hold(stuck: Sequence[Event]) -> Halt | None:
    held = [one for one in stuck if one.data.get("held") is True]
    if not held:
        return None
    words = f"the process of {_ranks(held)} was stopped by a signal {_where(held[0])}"
    return _halt("held", held, held[0], words)


def _cut_off(stuck: Sequence[Event], died: Sequence[Event]) -> Halt | None:
    """Those whose host did not reach that of rank 0. Whether it is their end is known where others reach it.

    Where several hosts do not, and none does, it is rank 0's own.
    """
    every = [*stuck, *died]
    cut = [one for one in every if one.data.get("unreached")]
    if not cut:
        return None
    ends = [one for one in every if one.data.get("rank") == 0]
    hosts, own = {_host(one) for one in cut}, {_host(one) for one in ends}
    reached = any(_host(one) not in hosts | own for one in every)
    missing = cut if reached else ends if len(hosts) > 1 else []
    words = f"{_ranks(cut)} could not reach rank 0's host {cut[0].data['unreached']} {_where(cut[0])}"
    return _halt("unreached", missing, cut[0], words)


def _missing(stuck: Sequence[Event], left: Sequence[Event], size: int) -> Halt | None:
    """Those furthest behind. If all came as far, inside the same operation, nobody is known to be missing.

    In one step of many operations those are who stood between two of them. Of those inside an earlier one
    than others nobody knows whether what they wait for was lost on its way. `left`: who was left alone as the
    first one that was stuck was ended: what that one waited for may be them.
    """
    if not stuck:
        return None
    group = [*stuck, *left]
    furthest, least = max(map(_progress, group)), min(map(_progress, group))
    front = next(one for one in group if _progress(one) == furthest)
    behind = [one for one in group if _progress(one) == least]
    inside, most = all(one.data.get("inside") is True for one in behind), max(map(_halves, group))
    between = [one for one in group if _halves(one) < most and not _halves(one) % 2]
    if least < furthest or len(group) < size:
        others = f", and the others waited {_where(front)}" if least < furthest else ", and the others ended"
        found = _halt("stuck", behind, front, f"{_ranks(behind)} stood still {_where(behind[0])}{others}")
    elif not inside:
        found = _halt("stuck", behind, front, f"{_ranks(behind)} stood still {_where(front)}")
    elif between:
        behind, inside = between, False
        words = f"{_ranks(between)} stood still between two operations, and the others waited {_where(front)}"
        found = _halt("stuck", between, front, words)
    else:
        words = f"all {size} ranks were stuck {_where(front)}: which one cannot be told"
        found = _halt("stuck", [], front, words)
    starved = [one for one in behind if "meanwhile" in one.data]
    if starved and (inside or len(starved) == len(behind)):  # inside an operation one holds up the others
        words = f"{_ranks(starved)} stood still {_where(starved[0])} while {starved[0].data['meanwhile']}"
        remedy = str(starved[0].data.get("disturbed", ""))
        return replace(_halt("starved", starved, front, words), remedy=remedy)
    return found


def _left_alone(died: Sequence[Event]) -> Halt | None:
    """Every rank says that another one left: the connection between them was lost."""
    if not died:
        return None
    words = f"the ranks lost the connection to each other {_where(died[0])}"
    return _halt("stuck", [], died[0], words)


def _halt(how: How, causes: Sequence[Event], front: Event, words: str) -> Halt:
    missing = tuple(dict.fromkeys(_device(one) for one in causes))
    mib = front.data.get("mib")
    operation = str(front.data.get("operation", ""))
    return Halt(how, missing, operation, mib if isinstance(mib, int) else 0, words, front.t_s)


def _progress(event: Event) -> int:
    """Twice the number of the step, and one more once it was left."""
    sequence = event.data.get("sequence")
    return 2 * (sequence if isinstance(sequence, int) else 0) + (event.data.get("inside") is not True)


def _halves(event: Event) -> int:
    """Halves of operations that a rank had begun and left in its step. An odd number is inside of one."""
    halves = event.data.get("halves")
    return halves if isinstance(halves, int) else 0


def _where(event: Event) -> str:
    data = event.data
    size = f" ({data['mib']} MiB)" if data.get("mib") else ""
    inside = "inside" if data.get("inside") else "after"
    return f"{inside} {data.get('operation')} {data.get('sequence')}{size}"


def _device(event: Event) -> str:
    return (event.worker or event.subject).rpartition("#")[0] or event.subject


def _host(event: Event) -> str:
    return _device(event).partition("/")[0]


def _ranks(events: Sequence[Event]) -> str:
    shown = [f"rank {one.data.get('rank')} ({_device(one)})" for one in events[:SHOWN]]
    more = f" and {len(events) - SHOWN} more" if len(events) > SHOWN else ""
    return ", ".join(shown) + more
