"""How close rigproof's verified GEMM rounds come to a bare torch loop of the same shape.

One process, one run, arms interleaved: bare, unsummed, rigproof, bare, unsummed, rigproof, bare. Each arm
warms up first. The bare loop has torch's default settings, no checksum and no event but its first and last.
The unsummed arm is the gemm stage without its checksums, so that nothing in it is verified: rigproof's rate
against it is what the sum of every product costs.

    python3 bench/gemm_against_bare_loop.py --out gemm.json
    python3 bench/gemm_against_bare_loop.py --precision fp32 --out gemm-fp32.json
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from rates import command_line, records_of, tell

from rigproof.devices.device import Device
from rigproof.devices.opening import open_device
from rigproof.devices.reporting import product_tflop
from rigproof.records.measurements import Event, Round
from rigproof.stages.gemm.stage import GemmSpec
from rigproof.stages.gemm.workload import run_gemm

REDUCTIONS = ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")


class Bare:
    """The loop anybody would write."""

    def __init__(self, device: Device, size: int, precision: str, reductions: dict[str, bool]) -> None:
        self.device, self.size, self.precision, self.reductions = device, size, precision, reductions

    def rate(self, warm_s: float, measure_s: float) -> float:
        """TFLOP/s of one long run of products behind a warm-up."""
        set_reductions(self.reductions)
        self.device.use(self.precision)
        operands = [self.device.normal(self.size, self.precision, seed) for seed in (1, 2)]
        a, b = operands[0], operands[1].t()
        out = self.device.empty(self.size, self.precision)
        product_s = self._run(a, b, out, 3)
        end_s = time.monotonic() + warm_s
        while time.monotonic() < end_s:
            product_s = self._run(a, b, out, max(1, int(0.5 / product_s)))
        product_s = self._run(a, b, out, max(1, int(measure_s / product_s)))
        set_reductions(dict.fromkeys(REDUCTIONS, False))
        return product_tflop(self.size) / product_s

    def _run(self, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, count: int) -> float:
        """Device seconds of one product, mean over `count`."""
        start = self.device.mark()
        for _ in range(count):
            torch.mm(a, b, out=out)
        end = self.device.mark()
        end.wait()
        return end.seconds_since(start) / count


def set_reductions(values: dict[str, bool]) -> None:
    """Whether parts of a sum may be added in 16-bit: torch's default says yes, rigproof no."""
    for name, value in values.items():
        setattr(torch.backends.cuda.matmul, name, value)


class NoSums:
    """Checksums that are never made."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self._count = capacity, 0

    def add(self, _matrix: torch.Tensor) -> None:
        """Counts it."""
        self._count += 1

    def fetch(self) -> None:
        """Nothing is there."""

    def take(self) -> tuple[int, ...]:
        """Zeros."""
        count, self._count = self._count, 0
        return (0,) * count


class Unsummed:
    """A device that sums nothing."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def __getattr__(self, name: str) -> object:
        return getattr(self._device, name)

    def checksums(self, capacity: int) -> NoSums:
        """Room for nothing."""
        return NoSums(capacity)


def rigproof_rate(device: Device, precision: str, given: argparse.Namespace) -> dict:
    """What the gemm stage says, and the same work over the wall clock, which shows gaps between rounds."""
    spec = GemmSpec("gemm", given.size, (precision,), given.settle, given.measure, given.round)
    records = records_of(lambda context: run_gemm(spec, device, context))
    rounds = [r for r in records if isinstance(r, Round)]
    measured = [r for r in rounds if r.phase == "measure"]
    wall_s = measured[-1].t_s - measured[0].t_s
    return {
        "tflops": sum(r.work for r in measured) / sum(r.seconds for r in measured),
        "tflops_by_wall_clock": sum(r.work for r in measured[1:]) / wall_s if wall_s > 0 else None,
        "rounds": len(measured),
        "round_s": sum(r.seconds for r in measured) / len(measured),
        "warmup_s": sum(r.seconds for r in rounds if r.phase == "warmup"),
        "verified": all(r.verified for r in rounds),
        "events": [r.message for r in records if isinstance(r, Event) and r.kind != "reference"],
    }


def arguments() -> argparse.Namespace:
    """The command line."""
    pairs = "bare + unsummed + rigproof, followed by a bare"
    parser = command_line(__doc__, pairs=pairs, measure="seconds per arm", measure_s=5.0)
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--precision", help="default: the device's best 16-bit one")
    parser.add_argument("--settle", type=float, default=10.0, help="seconds of warm-up, at most, per arm")
    return parser.parse_args()


def main() -> None:
    """Bare, unsummed and rigproof in turn; print and write the ratios of their means."""
    given = arguments()
    reductions = {name: getattr(torch.backends.cuda.matmul, name) for name in REDUCTIONS}
    device = open_device(given.device, given.threads)
    precision = given.precision or device.half
    bare = Bare(device, given.size, precision, reductions)
    bare_rates, unsummed_rates, arms = [], [], []
    for _ in range(given.pairs):
        bare_rates.append(bare.rate(given.settle, given.measure))
        unsummed_rates.append(rigproof_rate(Unsummed(device), precision, given)["tflops"])
        arms.append(rigproof_rate(device, precision, given))
    bare_rates.append(bare.rate(given.settle, given.measure))
    mean_bare = sum(bare_rates) / len(bare_rates)
    mean_rigproof = sum(arm["tflops"] for arm in arms) / len(arms)
    result = {
        "device": device.name,
        "torch": torch.__version__,
        "size": given.size,
        "precision": precision,
        "bare_tflops": bare_rates,
        "unsummed_tflops": unsummed_rates,
        "rigproof": arms,
        "ratio": mean_rigproof / mean_bare,
        "checksums_cost": 1 - mean_rigproof / (sum(unsummed_rates) / len(unsummed_rates)),
    }
    tell(result, given.out)


if __name__ == "__main__":
    main()
