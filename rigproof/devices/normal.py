"""Random normal data, in which people's data comes: rates are measured with it."""

from collections.abc import Collection, Sequence

from rigproof.devices.device import Device, Matrix, Product
from rigproof.devices.verification import Made, Operand, make_operand, make_reference

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
