"""Operands that fill a device's memory, and what their products must be."""

from rigproof.devices.device import Checksums, Device, Matrix, Product
from rigproof.devices.verification import Operand, Reference, as_hex, make_operand, make_reference
from rigproof.profiles.planning.operands import matrix_mib

CHECKED_BLOCK = 16  # per pair: over a pool of hundreds that checks as much as one block of 256
LEAST_MATRICES = 2
RECORDED_PAIRS = 16  # whose checksums are recorded: a difference between two cards shows in any product


class Pool:
    """`size` × `size` matrices in one precision, multiplied in neighbouring pairs into one result.

    Pair 0 is matrix 1 times matrix 0 transposed, pair i matrix i - 1 times matrix i transposed, so that going
    through the pairs reads every matrix and two matrices make two products. Each pair has a Reference from
    the moment its matrices are there, no two the same: a product that is not computed leaves its neighbour's
    result, which is detected.
    """

    def __init__(self, device: Device, size: int, precision: str, block: int = CHECKED_BLOCK) -> None:
        self._device = device
        self._size = size
        self._precision = precision
        self._block = block
        self._operands: list[Operand] = []
        self._out: Matrix | None = None
        self._next_pair = 0
        # By pair; kept when the pool shrinks, because rounds in progress may use them.
        self.references: list[Reference] = []

    def __len__(self) -> int:
        return len(self._operands)

    @property
    def pairs(self) -> int:
        """How many pairs there are to multiply: as many as matrices, from two on."""
        return len(self._operands) if len(self._operands) >= LEAST_MATRICES else 0

    @property
    def mib(self) -> float:
        """Memory of the matrices and the result."""
        count = len(self._operands) + (self._out is not None)
        return count * matrix_mib(self._size, self._precision)

    @property
    def checksums(self) -> dict[str, str]:
        """The first products' checksums, by the seeds of their operands, in hexadecimal digits."""
        first = enumerate(self.references[:RECORDED_PAIRS])
        return {"·".join(map(str, _matrices_of(pair))): as_hex(one.checksum) for pair, one in first}

    def grow(self) -> tuple[tuple[Reference, float], ...]:
        """Add a matrix; the references of the pairs that it makes, and their products' device seconds.

        The first matrix makes none, the second two. Raises the device's error if memory does not suffice;
        the pool is then as large as before.
        """
        if self._out is None:
            self._out = self._device.empty(self._size, self._precision)
        seed = len(self._operands)
        operand = make_operand(self._device, self._size, self._precision, seed, self._out)
        operands = [*self._operands, operand]
        references = self.references[: seed if seed >= LEAST_MATRICES else 0]
        made = []
        for pair in range(len(references), len(operands) if seed else 0):
            made.append(self._reference(pair, operands, references))
            references.append(made[-1][0])
        self._operands, self.references = operands, references
        return tuple(made)

    def shrink_to(self, count: int) -> None:
        """Free all matrices beyond `count`."""
        del self._operands[max(count, 0) :]
        self._device.empty_cache()

    def launch(self, products: int, sums: Checksums) -> tuple[int, ...]:
        """Queue the next products, each with its checksum; returns their pairs."""
        assert self._out is not None, "an empty pool has nothing to multiply"
        used = []
        for _ in range(products):
            pair = self._next_pair % self.pairs
            first, second = _matrices_of(pair)
            self._device.multiply(self._operands[first].matrix, self._operands[second].matrix, self._out)
            sums.add(self._out)
            used.append(pair)
            self._next_pair = pair + 1
        return tuple(used)

    def release(self) -> None:
        """Free everything."""
        self._operands.clear()
        self._out = None
        self._device.empty_cache()

    def _reference(
        self, pair: int, operands: list[Operand], known: list[Reference]
    ) -> tuple[Reference, float]:
        assert self._out is not None
        first, second = (operands[place] for place in _matrices_of(pair))
        product = Product(first.matrix, second.matrix, self._out, self._precision)
        taken = {one.checksum for one in known}
        return make_reference(
            self._device, product, self._block, seed=pair, flaw=first.flaw or second.flaw, taken=taken
        )


def _matrices_of(pair: int) -> tuple[int, int]:
    """Which matrices a pair multiplies."""
    return (pair - 1, pair) if pair else (1, 0)


def matrices_in(vram_mib: float, size: int, precision: str) -> int:
    """How many operands fit beside one result. ValueError if there is no room for a pair."""
    each_mib = matrix_mib(size, precision)
    count = int(vram_mib / each_mib) - 1
    if count < LEAST_MATRICES:
        needed_mib = (LEAST_MATRICES + 1) * each_mib
        raise ValueError(
            f"vram_mib = {vram_mib:.0f} holds no two operands and a result of size {size} in {precision}: "
            f"give at least {needed_mib:.0f} MiB or a smaller size"
        )
    return count
