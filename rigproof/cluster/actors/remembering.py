"""What an agent knows about its host's past: whether it has restarted, and which runs never ended there."""

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, Literal, Protocol

from rigproof.cluster.actors.black_box import BlackBox
from rigproof.cluster.actors.state_folder import (
    FoundRun,
    host_folder,
    make_folder,
    mark_reported,
    runs_of,
    this_host,
    tidy,
)
from rigproof.host.proc import boot_id
from rigproof.host.shutdowns import shut_down_after
from rigproof.records.black_box import FINISHED, Box, Head, Moment, event_of, fate, words_of
from rigproof.records.measurements import BootReading, Event
from rigproof.records.samples import GpuSample

MARK_S = 2.0  # for a marker to be on the disk
END_S = 1.0

Found = list[BootReading | Event]


class Memory(Protocol):
    """A host's memory of the runs on it, which outlives a reset of the host."""

    def begin(self) -> Found:
        """Record this run from now on. Returns the host's boot id, and events for runs that never ended."""

    def boot(self, moment: Literal["before", "after"]) -> BootReading:
        """The host's boot id now."""

    def mark(self, stage: str | None, since_s: float) -> None:
        """Record the stage that is about to begin at this run time; None: nothing is loaded from now on."""

    def doing(self, steps: Mapping[str, str]) -> None:
        """Keep what the latest rounds of these workers were, by worker."""

    def problems(self) -> list[Event]:
        """Why something could not be recorded, each reason once."""

    def end(self) -> None:
        """Record that the run has ended in an orderly way."""


def look_back(node: str, run_id: str, t_s: float) -> tuple[list[Event], list[FoundRun]]:
    """Events for the runs that never ended on this host, and the earlier runs among them.

    Each earlier run is reported once, so the caller has to mark it as reported. The current run, `run_id`,
    gives an event only if the host restarted during it.
    """
    now = boot_id().value
    host = this_host()
    events, earlier = [], []
    for run in runs_of(host, host_folder(host)) if now is not None else ():
        box = run.box
        if run.going_on or now is None:
            continue
        found = fate(box, now, shut_down_since(box))
        if box.head.run_id == run_id:
            if found == "restarted" and box.head.node == node:
                events.append(event_of(box, found, "host_reset", node))
        elif found in ("restarted", "killed") and not box.reported:
            events.append(event_of(box, found, "unfinished_run", node, t_s=t_s))
            earlier.append(run)
    return events, earlier


def shut_down_since(box: Box) -> bool | None:
    """Whether this host was shut down in an orderly way after the last line of a box; None if unknown."""
    return shut_down_after(box.last.wall_s) if box.last is not None else None


class Remembering:
    """The memory of a real host, in the state folder of its own disk.

    `gpus` returns each GPU's latest sample.
    """

    def __init__(
        self, node: str, run_id: str, now_s: Callable[[], float], gpus: Callable[[], Mapping[str, GpuSample]]
    ) -> None:
        self._node = node
        self._run_id = run_id
        self._now_s = now_s
        self._gpus = gpus
        self._stage: tuple[str | None, float] = (None, 0.0)
        self._steps: dict[str, str] = {}
        self._box: BlackBox | None = None
        self._earlier: list[FoundRun] = []
        self._problems: list[Event] = []
        self._error_reported = False
        self._before_term: Any = None

    def begin(self) -> Found:
        reading = self.boot("before")
        if reading.boot_id is None:
            return [reading]
        try:
            found, self._earlier = look_back(self._node, self._run_id, self._now_s())
            self._open(reading.boot_id)
        except OSError as error:
            self._problem(f"this host's black box cannot be written: {error}")
            found = []
        self._hear_term()
        return [reading, *found]

    def boot(self, moment: Literal["before", "after"]) -> BootReading:
        found = boot_id()
        return BootReading(self._now_s(), self._node, moment, found.value, found.reason)

    def mark(self, stage: str | None, since_s: float) -> None:
        self._stage, self._steps = (stage, since_s), {}
        if self._box is None or stage is None:
            return
        if not self._box.mark(MARK_S) and self._box.error is None:
            self._problem(f"the black box's line before {stage} was not on the disk within {MARK_S:g} s")

    def doing(self, steps: Mapping[str, str]) -> None:
        self._steps = self._steps | dict(steps)  # a new object: the box's thread reads the old one

    def problems(self) -> list[Event]:
        if self._box is not None and self._box.error is not None and not self._error_reported:
            self._error_reported = True
            self._problem(f"this host's black box is no longer written: {self._box.error}")
        problems, self._problems = self._problems, []
        return problems

    def end(self) -> None:
        """Record that the run has ended in an orderly way, and has reported the runs before it."""
        if self._box is not None:
            self._box.close(FINISHED, END_S)
        for run in self._earlier:
            mark_reported(run, self._run_id)
        self._earlier = []
        if self._before_term is not None:
            signal.signal(signal.SIGTERM, self._before_term)
            self._before_term = None

    def _open(self, boot: str) -> None:
        host = this_host()
        folder = host_folder(host)
        make_folder(folder)
        tidy(folder)
        box = BlackBox(folder, Head(self._run_id, self._node, host.name, host.machine, boot), self._line)
        box.open()
        self._box = box

    def _line(self) -> Moment:
        stage, since_s = self._stage
        gpus = {subject: words_of(sample) for subject, sample in self._gpus().items()}
        return Moment(
            round(self._now_s(), 3), round(time.time(), 3), stage, round(since_s, 3), self._steps, gpus
        )

    def _problem(self, message: str) -> None:
        self._problems.append(Event(self._now_s(), "black_box", self._node, message))

    def _hear_term(self) -> None:
        """Note a SIGTERM, which every process gets in an orderly shutdown and none in a reset."""
        if threading.current_thread() is not threading.main_thread() or self._box is None:
            return
        if (
            signal.getsignal(signal.SIGTERM) is not None
        ):  # otherwise it is not a Python handler and cannot be called
            self._before_term = signal.signal(signal.SIGTERM, self._terminated)

    def _terminated(self, number: int, frame: FrameType | None) -> None:
        if self._box is not None and self._before_term is not signal.SIG_IGN:
            self._box.close(signal.Signals(number).name, END_S)
        if callable(self._before_term):
            self._before_term(number, frame)
        elif self._before_term is signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
