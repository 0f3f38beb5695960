"""Golden operands: their product has the same bits on every device, so that it can be judged without a peer.

They are whole numbers, times a power of two, and so small that no sum of a product's terms, in any order,
exceeds 2^24: a 32-bit accumulator then never rounds. So tiles, split sums and the algorithm have no effect on
the product, and its one rounding to the stored format is the same everywhere (round to nearest, ties to even:
IEEE 754). The numbers are a hash of their place and seed in integer arithmetic, since torch's generators give
each device other numbers. They are bell-shaped as normal data are, and in 16 bits draw as much power
(docs/measuring.md).
"""

import math
import tomllib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import torch

from rigproof.devices.device import Device, Product
from rigproof.devices.torch_device import DTYPES, integer_view, result_precision
from rigproof.devices.verification import Made, Operand, Reference, as_hex, first_product

MATRICES = 4  # of which a pool holds copies: neighbours are then four different pairs
LARGEST_HALVED = 8192  # inner dimension up to which numbers of ±255 are small enough
SCALES = {"fp16": 2.0**-4}  # keeps results below 65,504, the largest of fp16
MASK = 0xFFFFFFFF
APART = 0x1F123BB5  # between the places that two seeds hash: more than the elements of any matrix
ODD = 0x045D9F3B  # below 2^31, so that a product with 32 bits stays below 2^63
CHUNK = 2**20  # elements made at a time: what they need beside the matrix is then small
STEP = 8  # elements: a multiple of any checksum word
BLOCK = 1024  # rows and columns of the exact product at a time
TILE = 128  # rows and columns of cuBLAS's usual tile
WORDS = {1: torch.int8, 2: torch.int16, 4: torch.int32}  # by the bytes of an element


@dataclass(frozen=True, slots=True)
class Numbers:
    """The whole numbers of a `size` × `size` operand, row by row.

    Each is the sum of the four bytes of a 32-bit hash of its place: bell-shaped around 0, up to ±255, with a
    standard deviation of 74 (up to size 8192). The largest sum of some terms of a product's element, in any
    order, is then 16.4 million (bench/golden_checksums.py). For fp8 (e4m3, whole numbers up to 16 exact) it
    is the sum of four times three bits, up to ±14.
    """

    size: int
    precision: str
    seed: int

    def part(self, start: int, count: int, where: torch.device) -> torch.Tensor:
        """The numbers from element `start` on, `count` of them, as fp32, scaled as the operand is."""
        return self._whole(start, count, where).to(torch.float32) * SCALES.get(self.precision, 1.0)

    def _whole(self, start: int, count: int, where: torch.device) -> torch.Tensor:
        bits = torch.arange(start, start + count, dtype=torch.int64, device=where)
        bits = (bits + (self.seed + 1) * APART) & MASK
        for _ in range(2):
            bits ^= bits >> 16
            bits = (bits * ODD) & MASK
        bits ^= bits >> 16
        if self.precision == "fp8":
            return (bits & 7) + ((bits >> 8) & 7) + ((bits >> 16) & 7) + ((bits >> 24) & 7) - 14
        return (
            (bits & 255) + ((bits >> 8) & 255) + ((bits >> 16) & 255) + (bits >> 24) - 510
        ) >> self._halvings

    @property
    def _halvings(self) -> int:
        """How often the numbers are halved: once more for sums four times as long."""
        return 1 + max(0, math.ceil(math.log(self.size / LARGEST_HALVED, 4)))


def fill(matrix: torch.Tensor, precision: str, seed: int) -> None:
    """Queue writing the golden numbers of a seed into a square matrix of that precision."""
    golden, row = Numbers(matrix.shape[0], precision, seed), matrix.view(-1)
    for start in range(0, row.numel(), CHUNK):
        count = min(CHUNK, row.numel() - start)
        row[start : start + count].copy_(golden.part(start, count, matrix.device))


@dataclass(frozen=True, slots=True)
class Block:
    """A part of an exact product, fp32, and its place."""

    rows: slice
    columns: slice
    values: torch.Tensor


def exact_blocks(device: Device, product: Product) -> Iterator[Block]:
    """The product of golden operands in fp32, block by block, row after row, on the device's other data path.

    That is the one that `product.precision` does not use: ordinary fp32 arithmetic for a product of tensor
    cores, and the reverse.
    """
    size = product.a.shape[0]
    step = BLOCK if size % STEP == 0 else size  # a checksum's words must not cross the edges of blocks
    for top in range(0, size, step):
        rows = slice(top, min(top + step, size))
        left = product.a[rows].to(torch.float32)
        for start in range(0, size, step):
            columns = slice(start, min(start + step, size))
            right = product.b[columns].to(torch.float32)
            yield Block(rows, columns, device.multiply_exactly(left, right, product.precision))


def exact_checksum(device: Device, product: Product) -> tuple[int, str]:
    """The checksum that a product of golden operands must have, and what speaks against it (empty: nothing).

    The exact product is held against arithmetic by its row and column sums, each a matrix-vector product of
    whole numbers in fp64 (A·(Bᵀ·1), B·(Aᵀ·1)), which is exact up to 2^53. Waits for the device.
    """
    a, b, dtype = product.a, product.b, DTYPES[result_precision(product.precision)]
    size = a.shape[0]
    total = torch.zeros((), dtype=torch.int64, device=a.device)
    by_row, by_column = (torch.zeros(size, dtype=torch.float64, device=a.device) for _ in range(2))
    for block in exact_blocks(device, product):
        total += integer_view(block.values.to(dtype).contiguous()).sum(dtype=torch.int64)
        by_row[block.rows] += block.values.sum(dim=1, dtype=torch.float64)
        by_column[block.columns] += block.values.sum(dim=0, dtype=torch.float64)
    right = torch.equal(by_row, _times_ones(a, b)) and torch.equal(by_column, _times_ones(b, a))
    flaw = "" if right else "the exact product's sums of rows or columns are not those of its operands"
    return int(total), flaw


def _times_ones(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """left · (rightᵀ · 1) in fp64, block by block: fp64 copies of whole operands would take much memory."""
    size = right.shape[0]
    ones = torch.zeros(size, dtype=torch.float64, device=right.device)
    for top in range(0, size, BLOCK):
        ones += right[top : top + BLOCK].to(torch.float32).sum(dim=0, dtype=torch.float64)
    parts = [left[top : top + BLOCK].to(torch.float64) @ ones for top in range(0, size, BLOCK)]
    return torch.cat(parts)


@cache
def in_package() -> dict[str, dict[str, str]]:
    """The checksums of golden.toml: by size and precision of the result's format, then by pair."""
    text = (files("rigproof.devices") / "golden.toml").read_text(encoding="utf-8")
    return {key: dict(pairs) for key, pairs in tomllib.loads(text).items()}


def table_key(size: int, precision: str) -> str:
    """The key in golden.toml: fp32 and tf32 share one, since their operands and results are the same."""
    return f"{size}-{'fp32' if precision == 'tf32' else precision}"


def pair_key(first: int, second: int) -> str:
    """A pair's name: the seeds of its operands."""
    return f"{first}·{second}"


class GoldenData:
    """Copies of MATRICES golden operands for a pool, and the checksums that their products must have.

    The checksums come from golden.toml, which was made on a CPU; for other sizes the device makes them
    (`exact_checksum`).
    """

    golden = True

    def __init__(self, device: Device, size: int, precision: str) -> None:
        self._device, self._size, self._precision = device, size, precision
        self._expected: dict[str, tuple[int, str]] = {}
        known = in_package().get(table_key(size, precision), {})
        for pair, value in known.items():
            self._expected[pair] = (_signed(int(value, 16)), "")

    def operand(self, number: int, before: Sequence[Operand], scratch: torch.Tensor) -> Operand:
        """Make one more operand twice, or copy it, and compare it with what it must be. Waits for the device.

        `scratch`: room for one, whose content is lost.
        """
        matrix = self._device.empty(self._size, self._precision)
        if number < MATRICES:
            meant = scratch
            fill(meant, self._precision, number)
            fill(matrix, self._precision, number)
        else:
            meant = before[number % MATRICES].matrix
            matrix.copy_(meant)
        sums = self._device.checksums(2)
        sums.add(meant)
        sums.add(matrix)
        sums.fetch()
        self._device.mark().wait()
        wanted, stored = sums.take()
        flaw = f"operand {number} reads back as {as_hex(stored)}, but {as_hex(wanted)} was written to it"
        return Operand(matrix, "" if stored == wanted else flaw)

    def first(self, seeds: tuple[int, int], product: Product, flaw: str, taken: Collection[int]) -> Made:  # noqa: ARG002
        """The reference of a pair, and its first product. Waits for the device."""
        key = pair_key(*(seed % MATRICES for seed in seeds))
        if key not in self._expected:
            self._expected[key] = exact_checksum(self._device, product)
        expected, doubt = self._expected[key]
        got, seconds = first_product(self._device, product)
        return Made(Reference(expected, 0.0, 0.0, flaw or doubt), got, seconds)

    def key(self, seeds: tuple[int, int]) -> str:
        """The pair's name, which is the same for copies of the same operands."""
        return pair_key(*(seed % MATRICES for seed in seeds))


class Differences:
    """Collects where a matrix differs from what it should be, block by block, and in which bits."""

    def __init__(self) -> None:
        self._places: list[torch.Tensor] = []
        self._bits = 0
        self._width = 0

    def add(self, got: torch.Tensor, wanted: torch.Tensor, top: int, left: int) -> None:
        """Compare a block, whose first element is at row `top` and column `left`. Waits for the device."""
        words = WORDS[got.element_size()]
        self._width = 8 * got.element_size()
        difference = got.contiguous().view(words) ^ wanted.contiguous().view(words)
        where = difference.nonzero()
        if len(where):
            for one in difference[where[:, 0], where[:, 1]].unique().tolist():
                self._bits |= one
            self._places.append((where + torch.tensor([top, left], device=where.device)).cpu())

    def found(self) -> dict[str, object]:
        """The differences in words and numbers; empty if there are none.

        `elements` (how many), `rows` and `columns` (first and last), `tiles` (of 128 × 128, how many), `bits`
        (those that differ in any element, in hexadecimal digits).
        """
        if not self._places:
            return {}
        places = torch.cat(self._places)
        (top, left), (bottom, right) = places.amin(dim=0).tolist(), places.amax(dim=0).tolist()
        return {
            "elements": len(places),
            "rows": [top, bottom],
            "columns": [left, right],
            "tiles": len((places // TILE).unique(dim=0)),
            "bits": f"0x{self._bits % 2**self._width:0{self._width // 4}x}",
        }


def wrong_elements(device: Device, product: Product, seeds: tuple[int, int]) -> dict[str, object]:
    """The elements in which an operand has changed, else those in which `product.out` is not exact.

    The keys of `Differences.found`, and `operand`: 0 or 1 if it is that operand of the product. Waits for the
    device. Raises its error if memory is short.
    """
    for place, (matrix, seed) in enumerate(zip((product.a, product.b), seeds, strict=True)):
        found = _wrong_numbers(matrix, product.precision, seed % MATRICES)
        if found:
            return {"operand": place, **found}
    differences = Differences()
    for block in exact_blocks(device, product):
        got = product.out[block.rows, block.columns]
        differences.add(got, block.values.to(got.dtype), block.rows.start, block.columns.start)
    return differences.found()


def _wrong_numbers(matrix: torch.Tensor, precision: str, seed: int) -> dict[str, object]:
    """The elements in which an operand is not what was written to it."""
    size, differences = matrix.shape[0], Differences()
    rows = max(1, CHUNK // size)
    for top in range(0, size, rows):
        got = matrix[top : top + rows]
        wanted = Numbers(size, precision, seed).part(top * size, got.numel(), matrix.device)
        differences.add(got, wanted.view(got.shape).to(got.dtype), top, 0)
    return differences.found()


def _signed(value: int) -> int:
    """A checksum of 16 digits as torch's int64."""
    return (value + 2**63) % 2**64 - 2**63
