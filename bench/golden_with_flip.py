"""Bits that flip in results, and one in an operand in memory: are they found, and is what follows sound?

    python3 bench/golden_with_flip.py --out golden-flip.json               # on a GPU, a minute and a half
    python3 bench/golden_with_flip.py --device cpu --size 512 --mib 64

In each precision of the device: a sound gemm stage; one bit of one product; some bits of a tile in each one.
Then the sustained stage: sound, one bit of an operand in memory, one bit of one product, and sound again.
"""

import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from rates import command_line, records_of, tell

from rigproof.devices.device import Device
from rigproof.devices.opening import open_device
from rigproof.devices.specs import Spec
from rigproof.devices.verification import placed
from rigproof.records.measurements import Event, Round
from rigproof.stages.gemm.stage import GemmSpec
from rigproof.stages.sustained.stage import SustainedSpec

WORDS = {1: torch.int8, 2: torch.int16, 4: torch.int32}
AFTER = 60  # products: those that make references and calibrate come first
Damage = Callable[[torch.Tensor, torch.Tensor, int], None]  # an operand, the result, the product's number


def bits(matrix: torch.Tensor) -> torch.Tensor:
    """The matrix's elements as integers."""
    return matrix.view(WORDS[matrix.element_size()])


def none(_operand: torch.Tensor, _out: torch.Tensor, _number: int) -> None:
    """No damage."""


def once(_operand: torch.Tensor, out: torch.Tensor, number: int) -> None:
    """One bit of one product."""
    if number == AFTER:
        bits(out)[-1, 17] ^= 1 << 6


def tile(_operand: torch.Tensor, out: torch.Tensor, _number: int) -> None:
    """Two bits of each element that a warp computes, in every product."""
    bits(out)[128:132, 32:64] ^= 0x11


def memory(operand: torch.Tensor, _out: torch.Tensor, number: int) -> None:
    """One bit of an operand, where it lies."""
    if number == AFTER:
        bits(operand)[77, 88] ^= 1 << 3


def done(name: str, spec: Spec, device: Device, damage: Damage) -> dict[str, Any]:
    """What the stage reports under this damage."""
    number, plain = 0, type(device).multiply

    def multiply(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        nonlocal number
        number += 1
        plain(device, a, b, out)
        damage(a, out, number)

    device.multiply = multiply  # type: ignore[method-assign]
    records = records_of(lambda context: spec.run(device, context))
    rounds = [one for one in records if isinstance(one, Round)]
    events = [one for one in records if isinstance(one, Event) and one.kind == "wrong_result"]
    measured = [one for one in rounds if one.phase == "measure"]
    result = {
        "case": name,
        "rounds": len(rounds),
        "unverified": sum(not one.verified for one in rounds),
        "tflops": sum(one.work for one in measured) / sum(one.seconds for one in measured),
        "wrong_results": [f"{one.message}: {placed(one.data)}" for one in events],
    }
    print(result, flush=True)
    return result


def arguments() -> Namespace:
    """The command line."""
    parser = command_line(__doc__, pairs="not used", measure="seconds of each gemm stage", measure_s=1.5)
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--mib", type=float, default=60 * 1024, help="filled by the sustained stage")
    return parser.parse_args()


def main() -> None:
    """Every case; print and write what was found."""
    given = arguments()
    device = open_device(given.device, given.threads)
    found = []
    for precision in device.precisions:
        spec = GemmSpec("gemm", given.size, (precision,), 2.0, given.measure, given.round)
        for name, damage in (("sound", none), ("one bit, once", once), ("a tile, always", tile)):
            found.append(done(f"gemm {precision}: {name}", spec, device, damage))
    load = SustainedSpec("sustained", given.size, given.mib, 6.0, 2.0, given.round)
    for name, damage in (
        ("sound", none),
        ("an operand", memory),
        ("one bit, once", once),
        ("sound again", none),
    ):
        found.append(done(f"sustained: {name}", load, device, damage))
    good = all(bool(one["wrong_results"]) != ("sound" in one["case"]) for one in found)
    tell({"device": device.name, "torch": torch.__version__, "good": good, "cases": found}, given.out)


if __name__ == "__main__":
    main()
