"""A simulated host's memory of runs. Nothing is written: its last words follow from the time of its reset."""

from collections.abc import Callable, Mapping
from typing import Literal
from uuid import NAMESPACE_OID, uuid5

from rigproof.cluster.actors.remembering import Found
from rigproof.records.black_box import Box, Head, Moment, event_of, words_of
from rigproof.records.measurements import BootReading, Event
from rigproof.simulation.rig import SimulatedNode
from rigproof.telemetry.nvml.sampling import read_sample
from rigproof.telemetry.nvml.session import Nvml


class SimulatedMemory:
    """The memory of a node that may have been reset."""

    def __init__(self, node: SimulatedNode, now_s: Callable[[], float]) -> None:
        self._node = node
        self._now_s = now_s

    def begin(self) -> Found:
        """The host's boot id, and an event for an earlier run if a fault says that it never ended."""
        found: Found = [self.boot("before")]
        if self._node.rig.fault("reset-before", self._node.name) is not None:
            longest = max(self._node.rig.plan.stages, key=lambda stage: stage.expected_s)
            moment = Moment(30.0, 0.0, longest.name, 26.0)  # of a run that was not simulated
            box = Box(Head("simulated-before", self._node.name, self._node.name, None, ""), moment)
            event = event_of(box, "restarted", "unfinished_run", self._node.name, t_s=self._now_s())
            found.append(event)
        return found

    def boot(self, moment: Literal["before", "after"]) -> BootReading:
        """The host's boot id now, another one after a simulated reset."""
        starts = 1 if reset_s(self._node, self._now_s()) is None else 2
        boot_id = str(uuid5(NAMESPACE_OID, f"{self._node.rig.seed}/{self._node.name}/{starts}"))
        return BootReading(self._now_s(), self._node.name, moment, boot_id)

    def mark(self, stage: str | None, since_s: float) -> None:
        """Keep nothing, since it is never read."""

    def doing(self, steps: Mapping[str, str]) -> None:
        """Keep nothing, since it is never read."""

    def problems(self) -> list[Event]:
        """Empty, since nothing is written that could fail."""
        return []

    def end(self) -> None:
        """Do nothing: nothing was written."""


def reset_s(node: SimulatedNode, now_s: float) -> float | None:
    """The run time at which the host went down; None if it has not."""
    fault = node.rig.fault("reset", node.name)
    window = fault.window(node.stages) if fault is not None else None
    return window[0] if window is not None and window[0] <= now_s else None


def last_words(node: SimulatedNode, nvml: Nvml | None, run_id: str, now_s: float) -> list[Event]:
    """The words of the host's black box about its reset; nothing if there was none."""
    down_s = reset_s(node, now_s)
    stages = [one for one in node.stages if down_s is not None and one.start_s <= down_s]
    if down_s is None or not stages:
        return []
    gpus = {}
    if nvml is not None:
        node.show(down_s)
        gpus = {
            subject: words_of(read_sample(nvml.gpu(card.uuid, subject, down_s), 0.0))
            for subject, card in node.cards.items()
        }
    line = Moment(down_s, 0.0, stages[-1].name, stages[-1].start_s, {}, gpus)
    box = Box(Head(run_id, node.name, node.name, None, ""), line)
    return [event_of(box, "restarted", "host_reset", node.name)]
