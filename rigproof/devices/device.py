"""The device as workloads see it, so that they read the same on a GPU and on the CPU."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from rigproof.records.identity import DeviceKind

if TYPE_CHECKING:
    import torch

Matrix: TypeAlias = "torch.Tensor"


@dataclass(frozen=True, slots=True)
class MemoryState:
    """The allocator's and the device's memory, MiB; None where it is not reported."""

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
        """Block until the device has done all work queued before the mark; later work continues."""

    def reached(self) -> bool:
        """Whether the device is as far by now; not on a CPU, which works as it launches. Does not wait."""

    def seconds_since(self, earlier: "Mark") -> float:
        """Device time between two marks that are both done."""


class Checksums(Protocol):
    """Checksums of one round's results. They stay on the device until the round is done."""

    capacity: int

    def add(self, matrix: Matrix) -> None:
        """Queue the sum of the matrix's integer view: exact, and the same in any order of summing."""

    def fetch(self) -> None:
        """Queue the copy to the host. Call it once, before the round's last mark."""

    def take(self) -> tuple[int, ...]:
        """The sums added so far, in order; another round can then be added. Valid once a mark set after
        `fetch` is done.
        """


@dataclass(frozen=True, slots=True)
class Product:
    """out = a · bᵀ in a precision: a is (m, k), b (n, k), out (m, n); in most stages all are square."""

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
    half: str  # the best 16-bit precision; "fp32" if the device has none worth using
    queue_depth: int  # rounds to keep queued so that the device never waits for the host

    def use(self, precision: str) -> None:
        """Prepare to multiply in this precision (switches tf32)."""

    def normal(self, size: int, precision: str, seed: int) -> Matrix:
        """Random normal data, the same for the same arguments."""

    def fill_normal(self, matrix: Matrix, seed: int) -> None:
        """Queue writing the data of `normal` into an existing matrix."""

    def empty(self, size: int, precision: str) -> Matrix:
        """Room for a matrix."""

    def empty_result(self, size: int, precision: str) -> Matrix:
        """Room for a product, in the format in which products of that precision are stored."""

    def as_operand(self, out: Matrix, precision: str) -> Matrix:
        """The memory of a product of that precision as room for one operand."""

    def words(self, count: int) -> Matrix:
        """Room for a row of 64-bit words."""

    def multiply(self, a: Matrix, b: Matrix, out: Matrix) -> None:
        """Queue out = a · bᵀ with 32-bit accumulation. A transposed second operand is the fast layout."""

    def multiply_exactly(self, left: Matrix, right: Matrix, precision: str) -> Matrix:
        """left · rightᵀ in fp32, on another data path than products of `precision` take, if there is one.

        Exact for golden operands. `use(precision)` must have been called, and holds afterwards.
        """

    def launched_at_once(self, work: Callable[[], None], random: Any) -> Callable[[], None] | None:
        """A function that queues the work with one launch; None if the device cannot.

        `work` reads and writes the same memory each time, and draws from the torch.Generator `random`. It is
        done once now, and not kept.
        """

    def checksums(self, capacity: int) -> Checksums:
        """Room for the checksums of one round."""

    def arithmetic(self) -> dict[str, Any]:
        """Facts that decide the last bit of a product: devices that agree in all must give the same bits.

        `device` (its name), `torch`, `cublas`, `multiprocessors`, `capability`; None if unknown.
        """

    def block_error(self, product: Product, rows: Sequence[int], columns: Sequence[int]) -> float:
        """Largest error of out[rows, columns] against a · bᵀ in 64-bit on the host.

        Each element's error is relative to its own size plus the block's root mean square. NaN if
        the result contains one. Waits for all queued work.
        """

    def mark(self) -> Mark:
        """Set a mark behind everything queued so far."""

    def memory(self) -> MemoryState:
        """Read the memory now; does not wait for queued work."""

    def reset_peak(self) -> None:
        """Reset `peak_reserved_mib` to what is reserved now."""

    def empty_cache(self) -> None:
        """Return cached, unused memory to the device."""

    def cached_mib(self) -> float:
        """Memory held but not used, as far as known: what `empty_cache` would free."""

    def limit_memory(self, mib: float | None) -> bool:
        """Limit this process's memory from now on; None removes the limit.

        An allocation beyond it fails like one beyond the device's memory. False if the limit is no
        lower than the device's memory: then none is in force.
        """

    def allocator_settings(self) -> dict[str, Any]:
        """The allocator's configuration in its own terms; empty if it reports none."""

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether the error is a failed allocation (out of memory)."""
