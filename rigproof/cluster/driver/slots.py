"""The place of one planned worker, whichever process fills it."""

from dataclasses import dataclass
from typing import Literal

from rigproof.cluster.ray.calls import Line
from rigproof.host.processes import ProcessId
from rigproof.profiles.planning.plan import WorkerPlan

# starting: its process or device is not up yet. vacant: nobody is there any more.
SlotState = Literal["starting", "ready", "working", "finished", "vacant"]


@dataclass(slots=True)
class Slot:
    """What the driver knows of it."""

    plan: WorkerPlan
    line: Line | None = None
    state: SlotState = "starting"
    generation: int = 0
    process: ProcessId | None = None
    since_s: float = 0.0  # when the process was asked for
    replacements: int = 0  # in this stage
    replacing: str | None = None  # why the process that went had to go, until the new one is up
    task: int = 0
    progress: int = 0  # rounds and signs of life of the task
    progress_s: float = 0.0  # when the latest of them (or the task's begin) was seen
    first_round_s: float | None = None
    last_round_s: float | None = None
    finished_s: float | None = None
    step: str = ""  # what its latest round was, as its node's agent is told
    outcome: Literal["none", "finished", "failed"] = "none"  # of the stage's task

    @property
    def pid(self) -> int | None:
        """The process id; None before its first answer and after its end."""
        return self.process.pid if self.process is not None else None
