"""The candidates on a device: views of shared operands, launched, and checked against 64-bit arithmetic."""

import math
from typing import Protocol

import torch
from torch.nn import functional

from rigproof.devices.device import Device, Product
from rigproof.devices.torch_device import DTYPES
from rigproof.devices.verification import Reference, make_reference, tolerance
from rigproof.stages.shapes.candidates import Candidate, elements

CHECKED_BLOCK = 64
SEED = 1


class Measured(Protocol):
    """One candidate on the device."""

    def prepare(self) -> None:
        """Queue overwriting the last result, so that one that is not computed again does not look right."""
        ...

    def launch(self) -> None:
        """Queue the product once on the device."""
        ...

    @property
    def result(self) -> torch.Tensor:
        """What the last launch computed."""
        ...

    def reference(self) -> Reference:
        """Do it once, and check a part of it against 64-bit arithmetic. Waits for the device."""
        ...


class Operands:
    """Random normal numbers for all candidates, and room for their results: allocated once."""

    def __init__(self, device: Device, precision: str, those: tuple[Candidate, ...]) -> None:
        self.device, self.precision = device, precision
        left, right, out = elements(those)
        where, dtype = torch.device(device.kind), DTYPES[precision]
        generator = torch.Generator(where).manual_seed(SEED)
        self.left, self.right = (
            torch.empty(size, dtype=dtype, device=where).normal_(generator=generator)
            for size in (left, right)
        )
        self.out = torch.empty(out, dtype=dtype, device=where)

    def measured(self, candidate: Candidate, sequence: int) -> Measured:
        """The candidate, on these operands."""
        if candidate.head:
            return Attention(self, candidate, sequence)
        return MatrixProduct(self, candidate)


class MatrixProduct:
    """out = a · bᵀ, as a linear layer computes it."""

    def __init__(self, operands: Operands, candidate: Candidate) -> None:
        m, n, k = candidate.tokens, candidate.n, candidate.k
        self._device = operands.device
        self._product = Product(
            operands.left[: m * k].view(m, k),
            operands.right[: n * k].view(n, k),
            operands.out[: m * n].view(m, n),
            operands.precision,
        )

    def prepare(self) -> None:
        self._product.out.zero_()

    def launch(self) -> None:
        self._device.multiply(self._product.a, self._product.b, self._product.out)

    @property
    def result(self) -> torch.Tensor:
        return self._product.out

    def reference(self) -> Reference:
        return make_reference(self._device, self._product, CHECKED_BLOCK).reference


class Attention:
    """Causal attention, forward, by whichever of torch's kernels suits the head."""

    def __init__(self, operands: Operands, candidate: Candidate, sequence: int) -> None:
        self._device, self._precision = operands.device, operands.precision
        shape = (*candidate.attended(sequence), candidate.head)
        count = math.prod(shape)
        self._inputs = tuple(
            operands.left[place * count : (place + 1) * count].view(shape) for place in range(3)
        )
        self._result: torch.Tensor | None = None

    def prepare(self) -> None:
        # The next result may get the memory of this one.
        if self._result is not None:
            self._result.zero_()
            self._result = None

    def launch(self) -> None:
        query, key, value = self._inputs
        self._result = None  # its memory is reused at once, so that none holds an earlier result
        self._result = functional.scaled_dot_product_attention(query, key, value, is_causal=True)

    @property
    def result(self) -> torch.Tensor:
        assert self._result is not None, "launch comes first"
        return self._result.contiguous()

    def reference(self) -> Reference:
        """The result's checksum; the last rows of two heads are compared with 64-bit arithmetic."""
        self.launch()
        sums = self._device.checksums(1)
        sums.add(self.result)
        sums.fetch()
        self._device.mark().wait()
        error = max(self._error(one) for one in (0, -1))
        (checksum,) = sums.take()
        return Reference(checksum, error, tolerance(self._precision, self._inputs[0].shape[2]))

    def _error(self, place: int) -> float:
        """Largest error of one head, relative as in `Device.block_error`."""
        query, key, value = (one[place, place].cpu().double() for one in self._inputs)
        rows = min(CHECKED_BLOCK, len(query))
        scores = query[-rows:] @ key.t() / math.sqrt(query.shape[1])
        hidden = torch.ones(rows, len(key), dtype=torch.bool).triu(len(key) - rows + 1)
        exact = scores.masked_fill(hidden, -math.inf).softmax(1) @ value
        got = self.result[place, place, -rows:].cpu().double()
        scale = exact.abs() + exact.square().mean().sqrt()
        return float(((got - exact).abs() / scale).max())
