"""How close rigproof's verified transfers come to a bare pinned copy of the same size.

One process, one run, arms interleaved: bare, rigproof, bare, rigproof, bare. The bare copy is `copy_` between
pinned host memory and the device, without a check and without an event but its first and last.

    python3 bench/transfer_against_bare_copy.py --out transfer.json
"""

import argparse
import math
import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import time

import torch
from rates import command_line, tell

from rigproof.devices.device import Device
from rigproof.devices.opening import open_device
from rigproof.records.crews import Member
from rigproof.records.measurements import Event, Round
from rigproof.stages.transfer.buffers import WORDS_PER_MIB
from rigproof.stages.transfer.stage import ALONE, BOTH, D2H, H2D, MEANINGS, TransferSpec
from rigproof.stages.transfer.workload import run_transfer


class Bare:
    """Pinned host memory and device memory, and copies between them."""

    def __init__(self, device: Device, mib: int) -> None:
        self.device = device
        on_card = device.kind == "cuda"
        where = torch.device("cuda", 0) if on_card else torch.device("cpu")
        words = mib * WORDS_PER_MIB
        self.host, self.back = (torch.ones(words, dtype=torch.int64, pin_memory=on_card) for _ in range(2))
        self.target, self.source = (torch.ones(words, dtype=torch.int64, device=where) for _ in range(2))
        self.side = torch.cuda.Stream() if on_card else None
        self.gb = words * 8 / 1e9

    def rates(self, measure_s: float) -> dict[str, float]:
        """GB/s by direction, each of one long run of copies."""
        found = {}
        for direction in MEANINGS:
            each_s = self._run(direction, 4)
            each_s = self._run(direction, max(4, int(measure_s / 4 / each_s)))
            ways = 2 if direction == BOTH else 1
            found[direction] = ways * self.gb / self._run(direction, max(4, int(measure_s / each_s)))
        return found

    def _run(self, direction: str, count: int) -> float:
        """Device seconds of one copy, mean over `count`."""
        start = self.device.mark()
        if direction == BOTH and self.side is not None:
            self.side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.side):
                self._copies(H2D, count)
            self._copies(D2H, count)
            torch.cuda.current_stream().wait_stream(self.side)
        else:
            for one in (H2D, D2H) if direction == BOTH else (direction,):
                self._copies(one, count)
        end = self.device.mark()
        end.wait()
        return end.seconds_since(start) / count

    def _copies(self, direction: str, count: int) -> None:
        target, source = (self.target, self.host) if direction == H2D else (self.back, self.source)
        for _ in range(count):
            target.copy_(source, non_blocking=True)


def rigproof_rates(device: Device, given: argparse.Namespace) -> dict:
    """What the transfer stage measures alone, by direction, and whether all of it was verified."""
    records: list = []
    begin_s = time.monotonic()
    context = SimpleNamespace(
        worker="bench",
        subject="bench",
        crew=Member("bench", begins_s=begin_s),
        now_s=time.monotonic,
        emit=records.append,
        alive=lambda: None,
        stopped=lambda: False,
    )
    spec = TransferSpec(
        "transfer",
        mib=given.mib,
        shift=0,
        shifts=1,
        setup_s=given.setup,
        shift_s=given.duration,
        together_s=0.1,
    )
    run_transfer(spec, device, context)
    rounds = [one for one in records if isinstance(one, Round) and one.labels["company"] == ALONE]
    by_direction = {name: [one for one in rounds if one.labels["direction"] == name] for name in MEANINGS}
    return {
        "gbps": {name: _rate(own) for name, own in by_direction.items() if own},
        "mib": sorted({one.labels["mib"] for one in rounds}),
        "rounds": {name: len(own) for name, own in by_direction.items()},
        "verified": all(one.verified for one in rounds),
        "events": [one.message for one in records if isinstance(one, Event)],
        "took_s": round(time.monotonic() - begin_s, 3),
    }


def _rate(rounds: list[Round]) -> float:
    return sum(one.work for one in rounds) / sum(one.seconds for one in rounds)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = command_line(
        __doc__,
        pairs="bare + rigproof, followed by a bare",
        measure="seconds of the bare copies, per direction and arm",
        measure_s=0.2,
    )
    parser.add_argument("--mib", type=int, default=128, help="of each buffer")
    parser.add_argument("--setup", type=float, default=0.8, help="seconds of the stage's set-up")
    parser.add_argument("--duration", type=float, default=0.3, help="seconds of the stage's shift, per arm")
    return parser.parse_args()


def main() -> None:
    """Bare and rigproof in turn; print and write the ratio of their means, by direction."""
    given = arguments()
    device = open_device(given.device, given.threads)
    bare, arms = [], []
    plain = Bare(device, given.mib)
    for _ in range(given.pairs):
        bare.append(plain.rates(given.measure))
        arms.append(rigproof_rates(device, given))
    bare.append(plain.rates(given.measure))

    def mean(found: list[dict[str, float]], direction: str) -> float:
        return sum(one.get(direction, math.nan) for one in found) / len(found)

    result = {
        "device": device.name,
        "torch": torch.__version__,
        "mib": given.mib,
        "bare_gbps": bare,
        "rigproof": arms,
        "ratio": {name: mean([arm["gbps"] for arm in arms], name) / mean(bare, name) for name in MEANINGS},
    }
    tell(result, given.out)


if __name__ == "__main__":
    main()
