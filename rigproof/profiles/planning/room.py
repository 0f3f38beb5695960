"""Whether the workers planned for a GPU fit beside the memory that others hold on it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from rigproof.profiles.planning.operands import WORKSPACE_MIB, context_gib
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.records.identity import GpuIdentity
from rigproof.records.measurements import ForeignMemory

IDLE_MIB = 16.0  # in use on an idle card, without the driver's reserve: 1 to 15


@dataclass(frozen=True, slots=True)
class Room:
    """A GPU's memory as a run divides it, MiB. `reserved_mib` is the driver's own."""

    total_mib: float
    reserved_mib: float
    planned_mib: float  # what all workers fill
    contexts_mib: float  # in addition: their CUDA contexts, loaded kernels and workspaces
    workers: int

    @property
    def free_mib(self) -> float:
        """MiB that other processes may hold beside the plan."""
        return self.total_mib - self.reserved_mib - self.planned_mib - self.contexts_mib

    @property
    def most_mib(self) -> float:
        """MiB that others may hold: all of it without workers.

        Others that hold no more than an idle card does (IDLE_MIB) are not blamed for a plan that does not
        fit.
        """
        return max(self.free_mib, IDLE_MIB) if self.workers else self.total_mib

    def holds(self, others_mib: float) -> bool:
        """Whether the plan fits beside the `others_mib` that others hold; without workers it always does."""
        return not self.workers or others_mib <= self.most_mib

    @property
    def breakdown(self) -> str:
        """The division in words."""
        needed_mib = self.planned_mib + self.contexts_mib
        return (
            f"of its {self.total_mib:.0f} MiB the plan needs {needed_mib:.0f} and the driver "
            f"{self.reserved_mib:.0f}"
        )


def room_of(workers: Sequence[WorkerPlan], gpu: GpuIdentity, others: ForeignMemory) -> Room:
    """The room on a GPU for its workers; an unknown driver's reserve counts as none."""
    return Room(
        total_mib=gpu.memory_total_mib,
        reserved_mib=others.reserved_mib or 0.0,
        planned_mib=sum(worker.vram_mib for worker in workers),
        contexts_mib=len(workers) * (context_gib(gpu.compute_capability) * 1024 + WORKSPACE_MIB),
        workers=len(workers),
    )
