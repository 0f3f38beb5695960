"""Operands that fill a device's memory, random normal ones or others, and what their products must be."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from rigproof.devices.device import Checksums, Device, Matrix, Product
from rigproof.devices.golden import wrong_elements
from rigproof.devices.verification import (
    Made,
    Operand,
    Reference,
    as_hex,
    first_product,
    make_operand,
    make_reference,
)
from rigproof.profiles.planning.operands import matrix_mib, result_mib

LEAST_MATRICES = 2
RECORDED_PAIRS = 16  # whose checksums are recorded: a difference between two cards shows in any product
# Of a round, or half of it: a device that has so few products left when all are launched waits for its host.
# Their kernels are fewer than the 1024 of CUDA's launch queue: if that is full, it is the host that waits.
LAST_PRODUCTS = 64
REPETITIONS = 3  # of a product that was wrong: does it happen again?


class Data(Protocol):
    """The content of a pool's matrices. If it is `golden`, products are known beforehand."""

    golden: bool

    def operand(self, number: int, before: Sequence[Operand], scratch: Matrix) -> Operand:
        """The pool's operand of that number; `before` has those with lower ones."""

    def first(self, seeds: tuple[int, int], product: Product, flaw: str, taken: Collection[int]) -> Made:
        """The reference of a product, and its first result."""

    def key(self, seeds: tuple[int, int]) -> str:
        """The name under which the product's checksum is recorded."""


@dataclass(frozen=True, slots=True)
class Launched:
    """A round's pairs, in order; and whether the device had nearly run out of work when all were launched."""

    pairs: tuple[int, ...]
    host_paced: bool


class Pool:
    """`size` × `size` matrices in one precision, multiplied in neighbouring pairs into one result.

    Pair 0 is matrix 1 times matrix 0 transposed, pair i matrix i - 1 times matrix i transposed, so that going
    through the pairs reads every matrix and two matrices make two products. Each pair has a Reference from
    the moment its matrices are there, another one than its neighbours': a product that is not computed leaves
    its neighbour's result, which is detected.
    """

    def __init__(self, device: Device, size: int, precision: str, data: Data | None = None) -> None:
        """`data`: by default random normal data."""
        self._device = device
        self._size = size
        self._precision = precision
        self.data: Data = NormalData(device, size, precision) if data is None else data
        self._operands: list[Operand] = []
        self.out: Matrix | None = None  # room for a product; pools of one size may share it
        self._next_pair = 0
        # By pair; kept when the pool shrinks, because rounds in progress may use them.
        self.references: list[Reference] = []

    def __len__(self) -> int:
        return len(self._operands)

    @property
    def pairs(self) -> int:
        """The number of pairs to multiply: as many as matrices, from two on."""
        return len(self._operands) if len(self._operands) >= LEAST_MATRICES else 0

    @property
    def mib(self) -> float:
        """Memory of the matrices and the result."""
        operands = len(self._operands) * matrix_mib(self._size, self._precision)
        return operands + (0 if self.out is None else result_mib(self._size, self._precision))

    @property
    def checksums(self) -> dict[str, str]:
        """The first products' checksums, by the seeds of their operands, in hexadecimal digits."""
        first = enumerate(self.references[:RECORDED_PAIRS])
        return {self.data.key(_matrices_of(pair)): as_hex(one.checksum) for pair, one in first}

    def grow(self) -> tuple[Made, ...]:
        """Add a matrix; the references of the pairs that it makes, with their first products.

        The first matrix makes none, the second two. Raises the device's error if memory does not suffice;
        the pool is then as large as before.
        """
        if self.out is None:
            self.out = self._device.empty_result(self._size, self._precision)
        seed = len(self._operands)
        scratch = self._device.as_operand(self.out, self._precision)
        operand = self.data.operand(seed, self._operands, scratch)
        operands = [*self._operands, operand]
        references = self.references[: seed if seed >= LEAST_MATRICES else 0]
        made = []
        for pair in range(len(references), len(operands) if seed else 0):
            made.append(self._first(pair, operands, references))
            references.append(made[-1].reference)
        self._operands, self.references = operands, references
        return tuple(made)

    def shrink_to(self, count: int) -> None:
        """Free all matrices beyond `count`."""
        del self._operands[max(count, 0) :]
        self._device.empty_cache()

    def launch(self, products: int, sums: Checksums) -> Launched:
        """Queue the next products, each with its checksum."""
        used: list[int] = []
        near_end = None
        for left in range(products, 0, -1):
            if left == min(LAST_PRODUCTS, products // 2):
                near_end = self._device.mark()
            pair = self._next_pair % self.pairs
            product = self._product(pair, self._operands)
            self._device.multiply(product.a, product.b, product.out)
            sums.add(product.out)
            used.append(pair)
            self._next_pair = pair + 1
        return Launched(tuple(used), near_end is not None and near_end.reached())

    def release(self) -> None:
        """Free all matrices and the result."""
        self._operands.clear()
        self.out = None
        self._device.empty_cache()

    def examine(self, pair: int) -> dict[str, Any]:
        """Multiply a pair again whose product was wrong, to see whether and where it is wrong again.

        `repeated`, `again` (how often it was wrong), and if it was, of golden operands the keys of
        `wrong_elements`. Waits for the device, so it must not be called within a round.
        """
        product, reference = self._product(pair, self._operands), self.references[pair]
        again = 0
        found: dict[str, Any] = {}
        for _ in range(REPETITIONS):
            checksum, _seconds = first_product(self._device, product)
            if checksum == reference.checksum:
                continue
            again += 1
            if self.data.golden and not found:
                found = self._wrong_elements(product, _matrices_of(pair))
        return {"repeated": REPETITIONS, "again": again, **found}

    def _wrong_elements(self, product: Product, seeds: tuple[int, int]) -> dict[str, Any]:
        """The wrong elements; empty if memory does not suffice to look for them."""
        try:
            return wrong_elements(self._device, product, seeds)
        except (RuntimeError, MemoryError) as error:
            if self._device.is_out_of_memory(error):
                return {}
            raise

    def _product(self, pair: int, operands: Sequence[Operand]) -> Product:
        assert self.out is not None, "an empty pool has nothing to multiply"
        first, second = (operands[place].matrix for place in _matrices_of(pair))
        return Product(first, second, self.out, self._precision)

    def _first(self, pair: int, operands: list[Operand], known: list[Reference]) -> Made:
        seeds = _matrices_of(pair)
        flaw = next((operands[place].flaw for place in seeds if operands[place].flaw), "")
        taken = {one.checksum for one in known}
        return replace(self.data.first(seeds, self._product(pair, operands), flaw, taken), pair=pair)


def _matrices_of(pair: int) -> tuple[int, int]:
    """The places of the matrices that a pair multiplies."""
    return (pair - 1, pair) if pair else (1, 0)


def matrices_in(vram_mib: float, size: int, precision: str) -> int:
    """The number of operands that fit beside one result. ValueError if there is no room for a pair."""
    each_mib, out_mib = matrix_mib(size, precision), result_mib(size, precision)
    count = int((vram_mib - out_mib) / each_mib)
    if count < LEAST_MATRICES:
        needed_mib = LEAST_MATRICES * each_mib + out_mib
        raise ValueError(
            f"vram_mib = {vram_mib:.0f} holds no two operands and a result of size {size} in {precision}: "
            f"give at least {needed_mib:.0f} MiB or a smaller size"
        )
    return count


CHECKED_BLOCK = 16  # per pair: over a pool of hundreds that checks as much as one block of 256


class NormalData:
    """Different random operands for a pool.

    What a product must be is not known beforehand: its first result is the reference, once `block` × `block`
    elements of it agree with 64-bit arithmetic.
    """

    golden = False

    def __init__(self, device: Device, size: int, precision: str, block: int = CHECKED_BLOCK) -> None:
        self._device = device
        self._size = size
        self._precision = precision
        self._block = block

    def operand(self, number: int, before: Sequence[Operand], scratch: Matrix) -> Operand:  # noqa: ARG002
        """Make one more operand; `scratch` is room for one, whose content is lost. Waits for the device."""
        return make_operand(self._device, self._size, self._precision, number, scratch)

    def first(self, seeds: tuple[int, int], product: Product, flaw: str, taken: Collection[int]) -> Made:
        """The reference of a pair from its first product. Waits for the device.

        `flaw`: of its operands; `taken`: the checksums of the other pairs.
        """
        return make_reference(self._device, product, self._block, seed=seeds[1], flaw=flaw, taken=taken)

    def key(self, seeds: tuple[int, int]) -> str:
        """The pair's name: its operands' seeds."""
        return "·".join(map(str, seeds))
