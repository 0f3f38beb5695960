"""A running task: its records up to a moment, and how it ended."""

import random
from collections.abc import Iterator
from typing import Literal

from rigproof.devices.specs import Spec
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.records.crews import Member
from rigproof.simulation.rig import SimulatedNode
from rigproof.simulation.stage import Records, Timed
from rigproof.simulation.work.damage import damaged
from rigproof.simulation.work.task import Task, TaskFailed, TaskHangs

Ended = Literal["finished", "failed"]


class RunningTask:
    """A running task. `ended` is None while it runs; a failed one has an `error`."""

    def __init__(
        self,
        node: SimulatedNode,
        plan: WorkerPlan,
        spec: Spec,
        start_s: float,
        *,
        crew: Member,
        generation: int = 0,
    ) -> None:
        seed = f"{node.rig.seed}/{plan.worker}/{spec.stage}"
        noise = random.Random(seed)  # noqa: S311 - noise, not a secret
        self._task = Task(node, plan, spec, start_s, noise, crew, generation)
        self._records: Iterator[Timed] = _records(self._task)
        self._next: Timed | None = None
        self.hangs = False  # whether it makes no more progress, not even a sign of life
        self.ended: Ended | None = None
        self.error: str | None = None

    def until(self, t_s: float) -> Records:
        """The records up to that moment.

        Raises:
            WorkerKilled, WorkerFrozen: if its process ends, or stops answering, before that.
        """
        while self.ended is None and not self.hangs:
            if self._next is None:
                try:
                    self._next = next(self._records, None)
                except TaskFailed as error:
                    self.ended, self.error = "failed", str(error)
                    return
                except TaskHangs:
                    self.hangs = True
                    return
                if self._next is None:
                    self.ended = "finished"
                    return
            if self._next.t_s > t_s:
                return
            yield self._next
            self._next = None


def _records(task: Task) -> Records:
    return damaged(task, _healthy(task)) if task.card.faults else _healthy(task)


def _healthy(task: Task) -> Records:
    return task.node.rig.forms[task.spec.stage].records(task, task.spec)
