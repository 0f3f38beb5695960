"""Ray's object transfer between two nodes: what one worker puts into its store, the other one gets from it.

The workers do it themselves, since Ray knows them, after their processes have measured TCP and the libraries.
Each object is another one, so that none is in the store already, and is freed before the next one.
"""

import os
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from rigproof.devices.meeting import EndedError, Meeting, SilentError
from rigproof.devices.reporting import Reporter
from rigproof.devices.specs import OBJECT_SILENT_S, STORE_SHARE, Objects, WorkerContext
from rigproof.records.measurements import MB
from rigproof.records.message_text import what_it_says
from rigproof.stages.lan.counting import End, Moment
from rigproof.stages.lan.stage import ALONE, BACK, OUT, RAY, SEND, TOGETHER, LanSpec
from rigproof.stages.lan.streams import Role, other_node, traffic

MEET_S = 20.0  # as long as the first meeting
OBJECT_S = 0.2  # of an object, by the rate of TCP
SMALLEST_MB, LARGEST_MB = 4.0, 64.0  # Ray sends chunks of 5 MiB
FEWEST_ROUNDS, MOST_ROUNDS = 4, 50  # the first warms up
SENDS = (OUT, BACK)  # what each rank sends
PASSES = ((OUT,), (BACK,), (OUT, BACK))  # directions at a time


class Transfer:
    """This end's part of it. `mbps`: the rate that TCP had, MB/s."""

    def __init__(self, spec: LanSpec, context: WorkerContext, objects: Objects, mbps: float) -> None:
        self._spec = spec
        self._context = context
        self._objects = objects
        self._mbps = mbps
        self._rank = context.crew.rank
        self._reporter = Reporter(context, spec.stage, context.crew.subject)
        self._other = other_node(spec, self._reporter)

    def run(self) -> None:
        """There, then back, then both at once. What kept it from going on is an event, not an error."""
        try:
            with Meeting(self._context, meet_s=MEET_S) as meeting:
                meeting.require_all()
                self._every_way(meeting)
        except EndedError:
            return
        except SilentError as error:
            self._event("lan_silent", str(error))
        except RuntimeError as error:  # of Ray
            self._event("lan_unable", what_it_says(error, 160))
        finally:
            self._objects.withdraw()

    def _every_way(self, meeting: Meeting) -> None:
        own = {
            "ip": meeting.own_address,
            "address": self._objects.address,
            "room_mb": self._objects.room_mb,
            "mbps": self._mbps,
        }
        told = self._exchange(meeting, "objects", own)
        other = told[1 - self._rank]
        end = End.at(meeting.own_address, other["ip"])
        mbps, room_mb = (min(one[name] for one in told.values()) for name in ("mbps", "room_mb"))
        mb = min(max(mbps * OBJECT_S, SMALLEST_MB), LARGEST_MB, STORE_SHARE * room_mb)
        size = int(mb * 1e6) | 1
        for place, directions in enumerate(PASSES):
            before = Moment.now(end, os.getppid())  # Ray's own process of this node, which sends and receives
            number = self._pass(meeting, place, other["address"], size)
            spent = Moment.now(end, os.getppid()).since(before)
            for direction in directions:
                role: Role = "sender" if SENDS[self._rank] == direction else "receiver"
                moved, labels = (role, number * size / 1e6), _labels(direction, directions)
                self._context.emit(traffic(self._reporter, self._spec.node, spent, moved, labels))

    def _pass(self, meeting: Meeting, place: int, address: str, size: int) -> int:
        """Objects of a pass, by its place among all, until it is time. How many went each way."""
        directions = PASSES[place]
        name = " and ".join(directions)
        sends, gets = (SENDS[rank] in directions for rank in (self._rank, 1 - self._rank))
        receivers = [1 - SENDS.index(one) for one in directions]
        labels = _labels(SENDS[1 - self._rank], directions)
        end_s, number, go_on = time.monotonic() + self._spec.ray_s / len(PASSES), 0, True
        while go_on:
            right = numbers(number, place, 1 - self._rank, size)
            if sends:
                self._objects.offer(numbers(number, place, self._rank, size))
            self._exchange(meeting, f"{name} {number} is there", None)
            came = not gets or self._get(address, right, number, labels)
            number += 1
            due = number < FEWEST_ROUNDS or (number < MOST_ROUNDS and time.monotonic() < end_s)
            told = self._exchange(meeting, f"{name} {number} has come", [came, due])
            self._objects.withdraw()
            if not came:
                raise SilentError(f"nothing came from the store of {self._other} for {OBJECT_SILENT_S:g} s")
            if not all(told[one][0] for one in receivers):
                raise EndedError  # which the other one reports
            go_on = all(told[one][1] for one in receivers)  # they decide
        return number

    def _get(self, address: str, right: npt.NDArray[Any], number: int, labels: dict[str, str]) -> bool:
        """Get an object, and report it; False if it did not come."""
        try:
            seconds, found = self._objects.get(address, OBJECT_SILENT_S, self._go_on)
        except TimeoutError:
            return False
        verified = np.array_equal(found, right)
        self._reporter.round(
            phase="measure" if number else "warmup",
            seconds=seconds,
            work=right.nbytes / 1e6,
            unit=MB,
            verified=verified,
            labels=labels,
        )
        if not verified:
            self._event("lan_wrong", f"an object from {self._other} is not what was put there")
        return True

    def _exchange(self, meeting: Meeting, topic: str, own: Any) -> dict[int, Any]:
        told = meeting.exchange(topic, own, 2 * OBJECT_SILENT_S)
        if len(told) < 2:
            raise SilentError(f"{self._other} does not answer")
        return told

    def _go_on(self) -> bool:
        self._context.alive()
        return not self._context.stopped()

    def _event(self, kind: str, what: str) -> None:
        self._reporter.event(kind, f"{RAY}: {what}", {"traffic": RAY})


def numbers(number: int, place: int, source: int, size: int) -> npt.NDArray[np.uint8]:
    """So many bytes of the object of that number, which a rank sends in the pass at that place."""
    return np.frombuffer(np.random.default_rng((number, place, source)).bytes(size), np.uint8)


def _labels(direction: str, directions: tuple[str, ...]) -> dict[str, str]:
    company = ALONE if len(directions) == 1 else TOGETHER
    return {"traffic": RAY, "operation": SEND, "direction": direction, "company": company}
