"""The events of a run, found by their kind and their subject."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from operator import attrgetter

from rigproof.records.grouping import grouped
from rigproof.records.measurements import Event

KILLABLE = ("worker_died", "worker_failed", "agent_died")  # a worker's task fails if its child was killed
RANKS = ("rank_stuck", "rank_died")
# data.limit_s: how long was waited, if it was a wait.
WAITS = ("timeout", "worker_hung", "worker_died", "agent_died", "node_lost", *RANKS)
CUDA_ERROR, NO_MEMORY = "CUDA error", "out of memory"  # the first is the device's, unless it is the second
SEEN_BEFORE_S, SEEN_AFTER_S = (
    10.0,
    5.0,
)  # a killing from the loss that it explains; agents look twice a second
MOST = 100  # killings at a time that are told apart: more explain whatever was lost then
ANEW_S = 60.0  # after the loss of the agent itself, the next one has to start before it looks
FREE_RAM = "free RAM of that node, or raise the memory limit of its container, and run again"


class EventIndex:
    """The events of a run, in the order of time; those of a kind are indexed by subject on first use.

    A loss while the kernel's OOM killer ended a process of its node is marked as no fault of the rig
    (`data.disturbed`): somebody held too much RAM, or a container has too little. Each process that it ended
    explains one loss, the nearest in time. `excused` marks a wait that passed its deadline in the same way,
    if its node was kept from the CPU meanwhile.
    """

    def __init__(
        self, events: Iterable[Event], excused: Callable[[Event], Event] = lambda event: event
    ) -> None:
        self._excused = excused
        self._unasked = set(WAITS)
        self._by_kind: dict[str, list[Event]] = defaultdict(list)
        in_order = sorted(events, key=attrgetter("t_s"))
        killed = _killed(in_order, _oom_kills(in_order))
        for place, one in enumerate(in_order):
            self._by_kind[one.kind].append(_marked(one) if place in killed else one)
        self._by_subject: dict[str, dict[str, list[Event]]] = {}

    def of_kind(self, kind: str) -> Sequence[Event]:
        """The events of this kind."""
        if kind in self._unasked:
            self._unasked.remove(kind)
            self._by_kind[kind] = list(map(self._excused, self._by_kind.get(kind, ())))
        return self._by_kind.get(kind, ())

    def in_order(self) -> list[Event]:
        """All events, in the order of time."""
        found = [one for kind in list(self._by_kind) for one in self.of_kind(kind)]
        return sorted(found, key=attrgetter("t_s"))

    def of(self, subject: str, *kinds: str) -> list[Event]:
        """The events of these kinds that concern the subject."""
        if len(kinds) == 1:
            return self._subjects_of(kinds[0]).get(subject, [])
        found = [event for kind in kinds for event in self._subjects_of(kind).get(subject, ())]
        return sorted(found, key=attrgetter("t_s"))

    @cached_property
    def left_out(self) -> dict[tuple[str, str], str]:
        """Why a criterion was not requested, by subject and criterion: the first reason."""
        found: dict[tuple[str, str], str] = {}
        for event in self.of_kind("left_out"):
            found.setdefault((event.subject, str(event.data.get("criterion"))), event.message)
        return found

    def _subjects_of(self, kind: str) -> dict[str, list[Event]]:
        """The events of this kind by subject."""
        if kind not in self._by_subject:
            self._by_subject[kind] = grouped(self.of_kind(kind), lambda event: event.subject)
        return self._by_subject[kind]


def _oom_kills(events: Iterable[Event]) -> dict[str, list[float]]:
    """When the OOM killer was seen to have ended a process, by node: one moment for each process."""
    found: dict[str, list[float]] = defaultdict(list)
    before: dict[str, int] = {}
    for event in events:
        killed = event.data.get("killed")
        if event.kind == "oom_kills" and isinstance(killed, int):
            found[event.subject] += [event.t_s] * min(MOST, killed - before.get(event.subject, killed))
            before[event.subject] = killed
    return {node: moments for node, moments in found.items() if moments}


def _killed(events: Sequence[Event], kills: Mapping[str, Sequence[float]]) -> set[int]:
    """The places of the losses that a process which the OOM killer ended at that time explains, one each."""
    near: list[tuple[float, int, str, int]] = []
    for place, loss in enumerate(events if kills else ()):
        node = loss.subject.partition("/")[0]
        for number, t_s in enumerate(kills.get(node, ()) if _killable(loss) else ()):
            after_s = ANEW_S if loss.kind == "agent_died" else SEEN_AFTER_S
            if loss.t_s - SEEN_BEFORE_S <= t_s <= loss.t_s + after_s:
                near.append((abs(t_s - loss.t_s), place, node, number))
    explained: set[int] = set()
    used: set[tuple[str, int]] = set()
    for _, place, node, number in sorted(near):
        if place not in explained and (node, number) not in used:
            explained.add(place)
            used.add((node, number))
    return explained


def _killable(loss: Event) -> bool:
    """Whether a killed process can be the cause: not where a device failed, or another cause is known."""
    by_device = CUDA_ERROR in loss.message and NO_MEMORY not in loss.message
    return loss.kind in KILLABLE and not by_device and "disturbed" not in loss.data


def _marked(loss: Event) -> Event:
    """The loss as no fault of the rig."""
    node = loss.subject.partition("/")[0]
    message = f"{loss.message}; the kernel's OOM killer ended a process of {node} then"
    return replace(loss, message=message, data=loss.data | {"disturbed": FREE_RAM})
