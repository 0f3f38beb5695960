"""How much memory matrices, a GEMM and a process on a GPU need, and whether the plan fits beside others."""

from collections.abc import Sequence
from dataclasses import dataclass

from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.records.identity import GpuIdentity
from rigproof.records.measurements import ForeignMemory

ITEM_BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1}
RESULT_BYTES = ITEM_BYTES | {"fp8": 2}  # products of fp8 are stored in bf16
STEP = 8  # tensor cores need dimensions divisible by 8
SMALLEST = 64
MIB_BYTES = 1 << 20
# A process's memory on a card outside torch's allocator: its CUDA context and the kernels it has loaded.
# 0.3 GiB for the context alone (pytorch/pytorch#107667), 0.67 with cuBLAS loaded on the 132 SMs of an H200
# (measured: reports/samples), less on a card with fewer.
CONTEXT_GIB = 0.4
# By compute capability, as measured: 0.67 on an H200 and on an H100 (driver 580, torch 2.11).
CONTEXT_GIB_OF = {(9, 0): 0.67}
MOST_CONTEXT_GIB = max(CONTEXT_GIB, *CONTEXT_GIB_OF.values())  # of any card that was measured
# What torch's allocator holds besides the operands: cuBLAS' workspace and checksums, 34 MiB on an H200.
WORKSPACE_MIB = 64


def matrix_mib(size: int, precision: str) -> float:
    """Memory of one `size` × `size` matrix, MiB. KeyError for a precision that is not in ITEM_BYTES."""
    return size * size * ITEM_BYTES[precision] / MIB_BYTES


def result_mib(size: int, precision: str) -> float:
    """Memory of the product of two such matrices, MiB."""
    return size * size * RESULT_BYTES[precision] / MIB_BYTES


def context_gib(compute_capability: tuple[int, int] | None) -> float:
    """Memory of a process outside torch's allocator on a card of this compute capability, GiB."""
    return CONTEXT_GIB if compute_capability is None else CONTEXT_GIB_OF.get(compute_capability, CONTEXT_GIB)


def operands_mib(size: int, precision: str = "fp32") -> float:
    """Memory of a product's two square operands and its result, MiB; by default in fp32, which takes most."""
    return 2 * matrix_mib(size, precision) + result_mib(size, precision)


def gemm_mib(size: int, precision: str = "fp32") -> float:
    """Memory of two pairs of operands, normal and golden ones, and a result, MiB; by default in fp32."""
    return operands_mib(size, precision) + 2 * matrix_mib(size, precision)


def fitting_size(size: int, memory_mib: float) -> int:
    """`size`, halved until what the gemm stage needs fits into `memory_mib`; at least 64."""
    while gemm_mib(size) > memory_mib and size > SMALLEST:
        size = max(SMALLEST, size // 2 // STEP * STEP)
    return size


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
