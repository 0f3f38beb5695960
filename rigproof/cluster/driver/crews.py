"""Crews of workers as the driver sees them: where they meet, and how a crew that loses a member ends."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from rigproof.cluster.driver.agents import Agents
from rigproof.cluster.driver.ground import Driving
from rigproof.cluster.driver.workers import Slot, Workers
from rigproof.devices.specs import Spec
from rigproof.records.crews import Address, Crew, Member, Turn
from rigproof.records.measurements import Event

LOOPBACK = "127.0.0.1"


class CrewAtWork:
    """A crew that began. If it loses a member, those at work are told to stop within `limit_s`."""

    def __init__(self, crew: Crew, workers: Workers, limit_s: float) -> None:
        self.crew = crew
        self.slots = tuple(workers.slots[name] for name in crew.workers)
        self._workers = workers
        self._limit_s = limit_s
        self._stopped_s: float | None = None  # when the others were told

    @property
    def working(self) -> bool:
        """Whether a member has not ended yet."""
        return any(slot.outcome == "none" for slot in self.slots)

    @property
    def finished(self) -> bool:
        """Whether all members finished their work."""
        return self._stopped_s is None and all(slot.outcome == "finished" for slot in self.slots)

    def check(self, now_s: float) -> Event | None:
        """End the crew if a member is lost: the event for that, the first time; else None.

        Members that do not stop in time are killed. If all others have ended, they were left alone by the one
        that is only now known to be lost, as a host is by whose deadline.
        """
        lost = [slot.plan.worker for slot in self.slots if slot.outcome == "failed"]
        others = [slot for slot in self.slots if slot.outcome == "none"]
        if not lost:
            return None
        if self._stopped_s is None:
            self._stopped_s = now_s
            self._workers.stop_tasks(others)
            message = f"it lost {', '.join(lost)}"
            if others:
                message += "; the others were told to stop"
            return crew_failed(now_s, self.crew, message, lost, self._workers.stage)
        if now_s - self._stopped_s > self._limit_s:
            for slot in others:
                why = f"its crew {self.crew.subject} ended, and it did not stop for {self._limit_s:g} s"
                self._workers.hung(slot, why, self._limit_s)
        return None

    def begin_anew(self, now_s: float) -> None:
        """Reset all deadlines: the driver itself was not polling until now."""
        if self._stopped_s is not None:
            self._stopped_s = now_s


def begin_turn(
    turn: Turn,
    specs: Mapping[str, Spec],
    workers: Workers,
    agents: Agents,
    driving: Driving,
    *,
    head_start_s: float,
    ahead: Mapping[str, int] = {},
) -> tuple[float, list[CrewAtWork]]:
    """Let the crews of a turn begin together. Returns when (run time, s), and the crews that do.

    A crew of several workers does not begin if a member is missing or it has no place to meet; an event
    reports that.
    """
    missing = {crew: [name for name in crew.workers if not workers.ready(name)] for crew in turn}
    there = [crew for crew in turn if not missing[crew]]
    places = rendezvous(there, workers.slots, agents)
    start_at_s = driving.now_s() + head_start_s
    begun = []
    for crew in turn:
        if len(crew.workers) > 1 and (missing[crew] or crew not in places):
            why = f"it did not begin: {_nobody(missing[crew])}"
            driving.sink(crew_failed(driving.now_s(), crew, why, missing[crew], workers.stage))
        elif not missing[crew]:
            for rank, name in enumerate(crew.workers):
                size, place = len(crew.workers), places.get(crew)
                member = Member(crew.subject, rank, size, place, start_at_s, crew.workers)
                workers.begin(name, specs[name], start_at_s, member, ahead=ahead.get(name, 0))
            begun.append(CrewAtWork(crew, workers, driving.timeouts.stop_s / 2))
    return start_at_s, begun


def rendezvous(crews: Sequence[Crew], slots: Mapping[str, Slot], agents: Agents) -> dict[Crew, Address]:
    """The place where each crew of several workers meets: a free port of the host of rank 0.

    The address is the one that Ray has for that host, which the others can reach; within one host it is
    loopback. Crews whose host reported no free port are left out.
    """
    wanted: dict[tuple[str, str], list[Crew]] = defaultdict(list)  # by rank 0's node, and its address
    for crew in crews:
        if len(crew.workers) > 1:
            nodes = [slots[name].plan.node for name in crew.workers]
            addresses = [agents.links[node].found.address for node in nodes]
            wanted[nodes[0], addresses[0] if len(set(addresses)) > 1 else LOOPBACK].append(crew)
    ports = agents.free_ports({place: len(own) for place, own in wanted.items()})
    return {
        crew: (address, port)
        for (node, address), own in wanted.items()
        for crew, port in zip(own, ports.get((node, address), ()), strict=False)
    }


def crew_failed(t_s: float, crew: Crew, message: str, lost: Sequence[str], stage: str | None) -> Event:
    """The event of a crew that did not do its work."""
    data = {"workers": list(lost), "size": len(crew.workers)}
    return Event(t_s, "crew_failed", crew.subject, message, stage, data=data)


def _nobody(missing: Sequence[str]) -> str:
    if not missing:
        return "the host of its rank 0 reported no free port"
    return f"there is no process of {', '.join(missing)}"
