"""The slot of one planned worker: a place that stays while processes that fill it are replaced."""

from dataclasses import dataclass
from typing import Literal

from rigproof.cluster.actors.messages import WorkerSetup
from rigproof.cluster.ray.calls import Poller
from rigproof.host.processes import ProcessId
from rigproof.profiles.planning.plan import WorkerPlan

# starting: its process or device is not ready yet. vacant: it has no process any more.
SlotState = Literal["starting", "ready", "working", "finished", "vacant"]


@dataclass(slots=True)
class Slot:
    """A planned worker as the driver sees it."""

    plan: WorkerPlan
    poller: Poller | None = None
    setup: WorkerSetup | None = None  # what its process has not been told yet: which worker it is
    state: SlotState = "starting"
    generation: int = 0
    process: ProcessId | None = None
    since_s: float = 0.0  # when the process was requested
    replacements: int = 0  # in this stage
    replacing: str | None = None  # why the previous process was replaced, until the new one is ready
    task: int = 0
    progress: int = 0  # rounds and signs of life of the task
    progress_s: float = 0.0  # when the latest of them (or the task's beginning) was seen
    first_round_s: float | None = None
    last_round_s: float | None = None
    finished_s: float | None = None
    step: str = ""  # the work of its latest round, as sent to its node's agent
    outcome: Literal["none", "finished", "failed"] = "none"  # of the stage's task

    @property
    def pid(self) -> int | None:
        """The process id; None before the process's first answer and after its end."""
        return self.process.pid if self.process is not None else None
