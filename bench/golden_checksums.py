"""The checksums of golden products, made on this device, and compared with those of the package.

    python3 bench/golden_checksums.py --device cuda --out golden.json   # all of the package
    python3 bench/golden_checksums.py --device cpu --write              # makes rigproof/devices/golden.toml

Each checksum is made from the exact product, whose sums of rows and columns are held against those of the
operands. Where the device has the precision, its own product is compared too. `largest_partial_sum` is the
largest sum of some of a product's terms, in any order: fp32 is exact up to 2^24. On two CPUs a pair of size
8192 takes half a minute.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from rates import tell

from rigproof.devices.device import Device, Product
from rigproof.devices.golden import MATRICES, exact_checksum, fill, in_package, pair_key, table_key
from rigproof.devices.opening import open_device
from rigproof.devices.verification import as_hex, first_product

SIZES = (256, 512, 1024, 2048, 4096, 5120, 8192)
PRECISIONS = ("fp32", "fp16", "bf16", "fp8", "tf32")
PAIRS = ((1, 0), *((number, (number + 1) % MATRICES) for number in range(MATRICES)))
FILE = Path(__file__).resolve().parent.parent / "rigproof/devices/golden.toml"
HEAD = """\
# What products of golden operands must be: checksums of exact products, made on a CPU by
# bench/golden_checksums.py --write. By size and format of the operands (tf32 as fp32), then by their seeds.
"""


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--write", action="store_true", help="write the package's file")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def checksums(device: Device, size: int, precision: str) -> tuple[dict[str, str], list[str]]:
    """By pair, and what is wrong with any."""
    found, wrong = {}, []
    matrices = [device.empty(size, precision) for _ in range(MATRICES)]
    for seed, matrix in enumerate(matrices):
        fill(matrix, precision, seed)
    device.use(precision if precision in device.precisions else "fp32")
    for first, second in PAIRS:
        product = Product(matrices[first], matrices[second], device.empty_result(size, precision), precision)
        checksum, flaw = exact_checksum(device, product)
        pair = pair_key(first, second)
        found[pair] = as_hex(checksum)
        wrong += [f"{size} {precision} {pair}: {flaw}"] if flaw else []
        if precision in device.precisions:
            own, _ = first_product(device, product)
            if own != checksum:
                wrong.append(f"{size} {precision} {pair}: the device's product is {as_hex(own)}")
    return found, wrong


def largest_partial_sum(device: Device, size: int) -> float:
    """The largest absolute sum of any of an element's terms, over all pairs: of those with one sign."""
    device.use("fp32")
    matrices = [device.empty(size, "fp32") for _ in range(MATRICES)]
    for seed, matrix in enumerate(matrices):
        fill(matrix, "fp32", seed)
    largest = 0.0
    for first, second in PAIRS:
        a, b = matrices[first], matrices[second]
        for rows in a.split(2048):
            up, down = rows.clamp(min=0), rows.clamp(max=0)
            positive = up @ b.clamp(min=0).t() + down @ b.clamp(max=0).t()
            negative = up @ b.clamp(max=0).t() + down @ b.clamp(min=0).t()
            largest = max(largest, float(positive.max()), -float(negative.min()))
    return largest


def main() -> None:
    """Make them, compare or write them, and print what differs."""
    given = arguments()
    device = open_device(given.device, given.threads)
    made, wrong, differing = {}, [], []
    for size in given.sizes:
        for precision in PRECISIONS[:-1] if given.write else PRECISIONS:
            found, flaws = checksums(device, size, precision)
            wrong += flaws
            key = table_key(size, precision)
            if made.setdefault(key, found) != found:
                wrong.append(f"{size}: {precision} differs from what has the same key")
            if not given.write and in_package().get(key) != found:
                differing.append(key)
    if given.write and not wrong:
        tables = (
            f'\n["{key}"]\n' + "".join(f'"{pair}" = "{value}"\n' for pair, value in pairs.items())
            for key, pairs in made.items()
        )
        FILE.write_text(HEAD + "".join(tables), encoding="utf-8")
    result = {
        "device": device.name,
        "torch": torch.__version__,
        "products": sum(map(len, made.values())),
        "own_precisions": device.precisions,
        "largest_partial_sum": None if given.write else largest_partial_sum(device, max(given.sizes)),
        "wrong": wrong,
        "differs_from_package": differing,
    }
    tell(result, given.out)


if __name__ == "__main__":
    main()
