"""When a product counts as correct, and what is reported when it does not.

Of golden operands it is known beforehand what a product must be (`rigproof.devices.golden`). Of others a
reference is made once: the product's operands must hold the intended data, its sampled block must agree
with 64-bit arithmetic on the host, and its checksum must be unique. Then every later result of the same
operands must have that checksum. Neighbouring products share their result's memory, so that one which is not
computed again leaves the checksum of another.
"""

import math
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rigproof.devices.device import Device, Matrix, Product

# Unit roundoff: half the gap between 1 and the next number (IEEE 754; bfloat16 and tf32 by their
# significands of 8 and 11 bits).
ROUNDOFF = {"fp32": 2.0**-24, "tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8, "fp8": 2.0**-8}
ACCUMULATOR_ROUNDOFF = 2.0**-23  # 32-bit sums; tensor cores truncate, which costs twice rounding
SAFETY = 8.0


def tolerance(precision: str, size: int) -> float:
    """Largest relative error of a correct product of normal operands, K = size.

        8 × (u + √K × 2^-23)

    u is the format's unit roundoff: of the stored result for fp32, fp16, bf16 and fp8 (stored in bf16), of
    the operands for tf32, whose result is stored in 32-bit. The second term is how rounding errors of K sums
    grow when they are independent (Higham and Mary 2019, "A New Approach to Probabilistic Rounding Error
    Analysis"). The factor covers the largest of some thousand elements and truncating hardware.
    """
    return SAFETY * (ROUNDOFF[precision] + math.sqrt(size) * ACCUMULATOR_ROUNDOFF)


def as_hex(checksum: int) -> str:
    """A checksum in readable form: 16 hexadecimal digits."""
    return f"{checksum % 2**64:016x}"


@dataclass(frozen=True, slots=True)
class Reference:
    """A product that later ones are compared with. `correct`: whether it passed its own checks.

    `flaw` says what else is wrong with it, besides its error; empty if nothing is.
    """

    checksum: int
    error: float
    tolerance: float
    flaw: str = ""

    @property
    def correct(self) -> bool:
        """Whether its sampled block agrees with 64-bit arithmetic (a NaN never does) and it has no flaw."""
        return not self.flaw and self.error <= self.tolerance

    def confirms(self, checksum: int) -> bool:
        """Whether a later result is correct: equal to a reference that is itself correct."""
        return self.correct and checksum == self.checksum

    def wrong(self, precision: str) -> tuple[str, dict[str, Any]]:
        """What is wrong with it: a message, and the data of a "wrong_result" event."""
        what = self.flaw or (
            f"product differs from 64-bit arithmetic by {self.error:.2g}, tolerance {self.tolerance:.2g}"
        )
        data = {"precision": precision, "error": self.error, "tolerance": self.tolerance}
        return f"{precision} {what}", data


@dataclass(frozen=True, slots=True)
class Made:
    """A reference, and the first product of its operands: its checksum and the device's seconds for it."""

    reference: Reference
    checksum: int
    seconds: float
    pair: int = 0

    @property
    def verified(self) -> bool:
        """Whether that product was correct."""
        return self.reference.confirms(self.checksum)

    @property
    def wrong(self) -> dict[str, Any]:
        """The differences of a wrong first product, as in `differing`."""
        return _difference(0, self.pair, self.reference, self.checksum)


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix of random data. `flaw` says where it does not hold the intended data; empty if it does."""

    matrix: Matrix
    flaw: str


def make_operand(device: Device, size: int, precision: str, seed: int, scratch: Matrix) -> Operand:
    """Write the data of a seed to `scratch` and to a matrix of its own, which must be the same.

    This finds memory that does not keep what is written to it before anything is compared with its content.
    Waits for the device.
    """
    sums = device.checksums(2)
    device.fill_normal(scratch, seed)
    sums.add(scratch)
    matrix = device.normal(size, precision, seed)
    sums.add(matrix)
    sums.fetch()
    device.mark().wait()
    meant, stored = sums.take()
    flaw = f"operand {seed} reads back as {as_hex(stored)}, but {as_hex(meant)} was written to it"
    return Operand(matrix, "" if stored == meant else flaw)


def first_product(device: Device, product: Product) -> tuple[int, float]:
    """Multiply once: the result's checksum, and the device's seconds. Waits for the device.

    `device.use` must have been called.
    """
    start = device.mark()
    device.multiply(product.a, product.b, product.out)
    end = device.mark()
    sums = device.checksums(1)
    sums.add(product.out)
    sums.fetch()
    device.mark().wait()
    (checksum,) = sums.take()
    return checksum, end.seconds_since(start)


def make_reference(
    device: Device,
    product: Product,
    block: int,
    *,
    seed: int = 0,
    flaw: str = "",
    taken: Collection[int] = (),
) -> Made:
    """Multiply once, and check `block` × `block` sampled elements.

    `flaw` is what is wrong with the operands. `taken` are the checksums of other products: this one must
    differ, or a result that was not computed could not be detected. Waits for the device. `device.use` must
    have been called.
    """
    (height, width), depth = product.out.shape, product.a.shape[1]
    checksum, seconds = first_product(device, product)
    choice = random.Random(seed)  # noqa: S311 - the choice of elements is no secret
    rows = choice.sample(range(height), min(block, height))
    columns = choice.sample(range(width), min(block, width))
    error = device.block_error(product, rows, columns)
    if checksum in taken:
        flaw = (
            flaw or f"product has the checksum {as_hex(checksum)} of another one, as if it were not computed"
        )
    reference = Reference(checksum, error, tolerance(product.precision, depth), flaw)
    return Made(reference, checksum, seconds)


def placed(found: Mapping[str, Any]) -> str:
    """The place of a wrong product in words, as `Pool.examine` found it; empty if it did not look."""
    if "repeated" not in found:
        return ""
    again = f"again in {found['again']} of {found['repeated']}" if found["again"] else "not again"
    if not found.get("elements"):
        return again
    number, (top, bottom), (left, right) = found["elements"], found["rows"], found["columns"]
    where = (
        f"{number} element{'s' * (number > 1)} (row{_span(top, bottom)}, column{_span(left, right)}, "
        f"bits {found['bits']})"
    )
    return f"its operand has changed in memory, {where}" if "operand" in found else f"{where}, {again}"


def _span(first: int, last: int) -> str:
    return f" {first}" if first == last else f"s {first}–{last}"


def differing(
    references: Sequence[Reference], pairs: Sequence[int], checksums: Sequence[int]
) -> tuple[bool, list[dict[str, Any]]]:
    """Whether every result of a round is correct, and each that differs from a correct reference.

    For those: `product` (its number in the round), `pair`, and the checksums `expected` and `got`.
    """
    verified, wrong = True, []
    for number, (pair, got) in enumerate(zip(pairs, checksums, strict=True)):
        reference = references[pair]
        if reference.confirms(got):
            continue
        verified = False
        if reference.correct:
            wrong.append(_difference(number, pair, reference, got))
    return verified, wrong


def _difference(number: int, pair: int, reference: Reference, got: int) -> dict[str, Any]:
    return {"product": number, "pair": pair, "expected": as_hex(reference.checksum), "got": as_hex(got)}
