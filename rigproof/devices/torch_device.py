"""What torch does alike on a GPU and on the CPU."""

from collections.abc import Callable, Sequence

import torch

from rigproof.devices.device import Product

DTYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8": torch.float8_e4m3fn,
}


def result_precision(precision: str) -> str:
    """The format in which products of that precision are stored."""
    return "bf16" if precision == "fp8" else precision


class TorchChecksums:
    """Sums of integer views, kept on the device and copied to the host after the round's work.

    The sum of 64-bit words modulo 2^64 is exact, so that the order in which a device adds has no effect, and
    any single wrong bit changes it. Host memory is pinned on a GPU: a copy to pageable memory would make the
    host wait for everything queued. Sums that were taken are cleared on both sides, so that a sum that is not
    computed the next time is not mistaken for an earlier one of the same product.
    """

    def __init__(self, where: torch.device, capacity: int) -> None:
        self.capacity = capacity
        self._sums = torch.zeros(capacity, dtype=torch.int64, device=where)
        self._slots = [self._sums[slot] for slot in range(capacity)]
        self._host = torch.zeros(capacity, dtype=torch.int64, pin_memory=where.type == "cuda")
        self._count = 0

    def add(self, matrix: torch.Tensor) -> None:
        torch.sum(integer_view(matrix), dim=0, dtype=torch.int64, out=self._slots[self._count])
        self._count += 1

    def fetch(self) -> None:
        self._host.copy_(self._sums, non_blocking=True)

    def take(self) -> tuple[int, ...]:
        values = tuple(self._host[: self._count].tolist())
        self._count = 0
        self._host.zero_()
        self._sums.zero_()  # queued after the current work; the next round of these sums comes later
        return values


def integer_view(matrix: torch.Tensor) -> torch.Tensor:
    """The matrix's memory as a row of the widest integers that fit it; no copy."""
    row = matrix.view(-1)
    if matrix.numel() * matrix.element_size() % 8 == 0:
        return row.view(torch.int64)
    return row.view(torch.int32 if matrix.element_size() == 4 else torch.int16)


def _rows(matrix: torch.Tensor, which: torch.Tensor) -> torch.Tensor:
    """Some rows of a matrix. torch cannot select rows of an fp8 matrix, only of its bytes."""
    if matrix.element_size() > 1:
        return matrix.index_select(0, which)
    return matrix.view(torch.uint8).index_select(0, which).view(matrix.dtype)


class TorchDevice:
    """Operands, products, checksums and the check against 64-bit arithmetic."""

    def __init__(self, where: torch.device, cpu_threads: int) -> None:
        self.where = where
        self.sms: int | None = None
        # A plain string: unpickling torch's own class for it, as the driver would, loads torch.
        self.torch_version = str(torch.__version__)
        self.cuda_version: str | None = torch.version.cuda
        self.cpu_threads = max(1, cpu_threads)
        torch.set_num_threads(self.cpu_threads)

    def empty(self, size: int, precision: str) -> torch.Tensor:
        return torch.empty(size, size, dtype=DTYPES[precision], device=self.where)

    def empty_result(self, size: int, precision: str) -> torch.Tensor:
        return self.empty(size, result_precision(precision))

    def as_operand(self, out: torch.Tensor, precision: str) -> torch.Tensor:
        dtype = DTYPES[precision]
        return out if out.dtype == dtype else out.view(dtype).view(-1)[: out.numel()].view(out.shape)

    def words(self, count: int) -> torch.Tensor:
        return torch.empty(count, dtype=torch.int64, device=self.where)

    def multiply(self, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        torch.mm(a, b.t(), out=out)

    def multiply_exactly(self, left: torch.Tensor, right: torch.Tensor, precision: str) -> torch.Tensor:  # noqa: ARG002
        """left · rightᵀ of golden fp32 operands; the CPU has one data path."""
        return left @ right.t()

    def launched_at_once(
        self,
        work: Callable[[], None],  # noqa: ARG002
        random: torch.Generator,  # noqa: ARG002
    ) -> Callable[[], None] | None:
        """None, since the CPU launches nothing."""
        return None

    def checksums(self, capacity: int) -> TorchChecksums:
        return TorchChecksums(self.where, capacity)

    def block_error(self, product: Product, rows: Sequence[int], columns: Sequence[int]) -> float:
        down = torch.tensor(rows, device=self.where)
        across = torch.tensor(columns, device=self.where)
        left = _rows(product.a, down).cpu().double()
        right = _rows(product.b, across).cpu().double()
        got = product.out.index_select(0, down).index_select(1, across).cpu().double()
        exact = left @ right.t()
        scale = exact.abs() + exact.square().mean().sqrt()
        return float(((got - exact).abs() / scale).max())  # torch's max keeps a NaN
