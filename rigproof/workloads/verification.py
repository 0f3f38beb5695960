"""When a product counts as right, and what is said when it is not.

A reference is made once: the product's sampled block must agree with 64-bit arithmetic on the host,
then its checksum is what every later result of the same operands has to equal.
"""

import math
import random
from dataclasses import dataclass

from rigproof.workloads.device import Device, Product

# Unit roundoff: half the gap between 1 and the next number (IEEE 754; bfloat16 and tf32 by their
# significands of 8 and 11 bits).
ROUNDOFF = {"fp32": 2.0**-24, "tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8}
ACCUMULATOR_ROUNDOFF = 2.0**-23  # 32-bit sums; tensor cores truncate, which costs twice rounding
SAFETY = 8.0


def tolerance(precision: str, size: int) -> float:
    """Largest relative error of a correct product of normal operands, K = size.

        8 × (u + √K × 2^-23)

    u is the format's unit roundoff: of the stored result for fp32, fp16 and bf16, of the operands
    for tf32, whose result is stored in 32-bit. The second term is how rounding errors of K sums grow
    when they are independent (Higham and Mary 2019, "A New Approach to Probabilistic Rounding Error
    Analysis"). The factor covers the largest of some thousand elements and truncating hardware.
    """
    return SAFETY * (ROUNDOFF[precision] + math.sqrt(size) * ACCUMULATOR_ROUNDOFF)


def as_hex(checksum: int) -> str:
    """A checksum as people compare it: 16 hexadecimal digits."""
    return f"{checksum % 2**64:016x}"


@dataclass(frozen=True, slots=True)
class Reference:
    """A product that later ones are compared with. `correct` tells whether it passed its own check."""

    checksum: int
    error: float
    tolerance: float

    @property
    def correct(self) -> bool:
        """Whether the sampled block agrees with 64-bit arithmetic. A NaN does not."""
        return self.error <= self.tolerance

    def confirms(self, checksum: int) -> bool:
        """Whether a later result is right: equal to a reference that is itself correct."""
        return self.correct and checksum == self.checksum


def make_reference(device: Device, product: Product, block: int, seed: int = 0) -> tuple[Reference, float]:
    """Multiply once, check `block` × `block` sampled elements; the reference and the product's seconds.

    Waits for the device. `device.use` must have been called.
    """
    size = product.out.shape[0]
    start = device.mark()
    device.multiply(product.a, product.b, product.out)
    end = device.mark()
    sums = device.checksums(1)
    sums.add(product.out)
    sums.fetch()
    device.mark().wait()
    choice = random.Random(seed)  # noqa: S311 - which elements to look at is no secret
    rows = choice.sample(range(size), min(block, size))
    columns = choice.sample(range(size), min(block, size))
    error = device.block_error(product, rows, columns)
    return Reference(sums.take()[0], error, tolerance(product.precision, size)), end.seconds_since(start)
