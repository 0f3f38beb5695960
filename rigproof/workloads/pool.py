"""Operands that fill a device's memory, and what their products must be."""

from rigproof.profiles.operands import matrix_mib
from rigproof.workloads.device import Checksums, Device, Matrix, Product
from rigproof.workloads.verification import Reference, make_reference

CHECKED_BLOCK = 16  # per pair: over a pool of hundreds that is as much as one block of 256
LEAST_MATRICES = 2


class Pool:
    """`size` × `size` matrices in one precision, multiplied in neighbouring pairs.

    Pair i is matrix i times matrix i + 1 transposed, so that going through the pairs reads every
    matrix. Each pair has a Reference from the moment its second matrix is there.
    """

    def __init__(self, device: Device, size: int, precision: str) -> None:
        self._device = device
        self._size = size
        self._precision = precision
        self._matrices: list[Matrix] = []
        self._out: Matrix | None = None
        self._next_pair = 0
        # By pair; kept when the pool shrinks, because rounds that use them may be under way.
        self.references: list[Reference] = []

    def __len__(self) -> int:
        return len(self._matrices)

    @property
    def pairs(self) -> int:
        """How many pairs there are to multiply."""
        return max(0, len(self._matrices) - 1)

    @property
    def mib(self) -> float:
        """Memory of the matrices and the result."""
        count = len(self._matrices) + (self._out is not None)
        return count * matrix_mib(self._size, self._precision)

    def grow(self) -> tuple[Reference, float] | None:
        """Add a matrix; the reference of its pair with the one before, and that product's device seconds.

        None for the first matrix. Raises the device's error where memory does not suffice, and is
        then as large as before.
        """
        if self._out is None:
            self._out = self._device.empty(self._size, self._precision)
        seed = len(self._matrices)
        matrix = self._device.normal(self._size, self._precision, seed)
        if not self._matrices:
            self._matrices.append(matrix)
            return None
        made = make_reference(
            self._device,
            Product(self._matrices[-1], matrix, self._out, self._precision),
            CHECKED_BLOCK,
            seed,
        )
        self._matrices.append(matrix)
        del self.references[seed - 1 :]
        self.references.append(made[0])
        return made

    def shrink_to(self, count: int) -> None:
        """Let go of all matrices beyond `count`, and give their memory back."""
        del self._matrices[max(count, 0) :]
        self._device.empty_cache()

    def launch(self, products: int, sums: Checksums) -> tuple[int, ...]:
        """Queue the next products, each with its checksum; which pairs they were."""
        assert self._out is not None, "an empty pool has nothing to multiply"
        used = []
        for _ in range(products):
            pair = self._next_pair % self.pairs
            self._device.multiply(self._matrices[pair], self._matrices[pair + 1], self._out)
            sums.add(self._out)
            used.append(pair)
            self._next_pair = pair + 1
        return tuple(used)

    def release(self) -> None:
        """Let go of everything."""
        self._matrices.clear()
        self._out = None
        self._device.empty_cache()


def matrices_in(vram_mib: float, size: int, precision: str) -> int:
    """How many operands fit beside one result. ValueError where there is not room for a pair."""
    each_mib = matrix_mib(size, precision)
    count = int(vram_mib / each_mib) - 1
    if count < LEAST_MATRICES:
        needed_mib = (LEAST_MATRICES + 1) * each_mib
        raise ValueError(
            f"vram_mib = {vram_mib:.0f} holds no two operands and a result of size {size} in {precision}: "
            f"give at least {needed_mib:.0f} MiB or a smaller size"
        )
    return count
