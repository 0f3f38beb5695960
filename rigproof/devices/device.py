"""The device as workloads see it, so that they read the same on a GPU and on the CPU."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from rigproof.records.identity import DeviceKind

if TYPE_CHECKING:
    import torch

Matrix: TypeAlias = "torch.Tensor"


@dataclass(frozen=True, slots=True)
class MemoryState:
    """The allocator's and the device's memory, MiB. None where the device or allocator does not tell."""

    allocated_mib: float
    reserved_mib: float
    peak_reserved_mib: float
    device_free_mib: float | None
    device_total_mib: float | None
    ooms: int | None
    alloc_retries: int | None


class Mark(Protocol):
    """A moment in the device's order of work."""

    def wait(self) -> None:
        """Block until the device has done all work queued before the mark; later work goes on."""
        ...

    def seconds_since(self, earlier: "Mark") -> float:
        """Device time between two marks that are both done."""
        ...


class Checksums(Protocol):
    """Checksums of one round's results. They stay on the device until the round is done."""

    capacity: int

    def add(self, matrix: Matrix) -> None:
        """Queue the sum of the matrix's integer view: exact, and the same in any order of summing."""
        ...

    def fetch(self) -> None:
        """Queue the copy to the host. Call it once, before the round's last mark."""
        ...

    def take(self) -> tuple[int, ...]:
        """What was added, in order, leaving room for another round's. Valid once a mark set after
        `fetch` is done.
        """
        ...


@dataclass(frozen=True, slots=True)
class Product:
    """out = a · bᵀ in a precision."""

    a: Matrix
    b: Matrix
    out: Matrix
    precision: str


class Device(Protocol):
    """One GPU or the host's CPU. A matrix is square, `size` × `size`, in one of `precisions`."""

    kind: DeviceKind
    uuid: str
    name: str
    sms: int | None  # streaming multiprocessors that this process can use; None on the CPU
    torch_version: str
    cuda_version: str | None  # that torch was built for
    cpu_threads: int  # of torch on the host
    precisions: tuple[str, ...]
    half: str  # the best 16-bit precision; "fp32" where the device has none worth using
    queue_depth: int  # rounds to keep queued so that the device never waits for the host

    def use(self, precision: str) -> None:
        """Prepare to multiply in this precision (switches tf32)."""
        ...

    def normal(self, size: int, precision: str, seed: int) -> Matrix:
        """Random normal data, the same for the same arguments."""
        ...

    def fill_normal(self, matrix: Matrix, seed: int) -> None:
        """Queue the same data as `normal` gives into a matrix that is there."""
        ...

    def empty(self, size: int, precision: str) -> Matrix:
        """Room for a result."""
        ...

    def multiply(self, a: Matrix, b: Matrix, out: Matrix) -> None:
        """Queue out = a · bᵀ with 32-bit accumulation. A transposed second operand is the fast layout."""
        ...

    def checksums(self, capacity: int) -> Checksums:
        """Room for the checksums of one round."""
        ...

    def arithmetic(self) -> dict[str, Any]:
        """What decides the last bit of a product: devices that agree in all of it have to agree in that too.

        `device` (its name), `torch`, `cublas`, `multiprocessors`, `capability`; None where it does not tell.
        """
        ...

    def block_error(self, product: Product, rows: Sequence[int], columns: Sequence[int]) -> float:
        """Largest error of out[rows, columns] against a · bᵀ in 64-bit on the host.

        Each element's error is relative to its own size plus the block's root mean square. NaN where
        the result holds one. Waits for all queued work.
        """
        ...

    def mark(self) -> Mark:
        """Set a mark behind everything queued so far."""
        ...

    def memory(self) -> MemoryState:
        """Read the memory now; does not wait for queued work."""
        ...

    def reset_peak(self) -> None:
        """Let `peak_reserved_mib` start again from what is reserved now."""
        ...

    def empty_cache(self) -> None:
        """Give memory that is held but not used back to the device."""
        ...

    def cached_mib(self) -> float:
        """What is held but not used, as far as it is known: what `empty_cache` would give back."""
        ...

    def limit_memory(self, mib: float | None) -> bool:
        """Let this process take at most so much from now on; None lifts the limit again.

        An allocation beyond it fails as one beyond the device's memory does. False where the limit is no
        less than what there is, or was: then none is in force.
        """
        ...

    def allocator_settings(self) -> dict[str, Any]:
        """How the allocator is configured, in its own words; empty where it does not tell."""
        ...

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether the error is an allocation that failed for want of memory."""
        ...
