"""How close rigproof's verified copies come to a bare torch loop over buffers of the same size.

One process, one run, arms interleaved: bare, rigproof, bare, rigproof, bare. The bare loop copies one buffer
to another without a check and without an event but its first and last.

    python3 bench/bandwidth_against_bare_loop.py --out bandwidth.json
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from rates import command_line, records_of, tell

from rigproof.devices.device import Device
from rigproof.devices.opening import open_device
from rigproof.records.measurements import Event, Round
from rigproof.stages.bandwidth.stage import BandwidthSpec, buffer_size
from rigproof.stages.bandwidth.workload import run_bandwidth


def bare_rate(device: Device, size: int, measure_s: float) -> float:
    """GB/s of one long run of copies, bytes read and written."""
    source, target = device.normal(size, "fp32", 1), device.empty(size, "fp32")
    moved_gb = 2 * source.numel() * source.element_size() / 1e9
    copy_s = _run(device, source, target, 8)
    copy_s = _run(device, source, target, max(1, int(0.3 / copy_s)))
    return moved_gb / _run(device, source, target, max(1, int(measure_s / copy_s)))


def _run(device: Device, source: torch.Tensor, target: torch.Tensor, count: int) -> float:
    """Device seconds of one copy, mean over `count`."""
    start = device.mark()
    for _ in range(count):
        target.copy_(source)
    end = device.mark()
    end.wait()
    return end.seconds_since(start) / count


def rigproof_rates(device: Device, size: int, given: argparse.Namespace) -> dict:
    """What the bandwidth stage measures, by operation, and whether all of it was verified."""
    spec = BandwidthSpec("bandwidth", size, given.duration, given.round)
    records = records_of(lambda context: run_bandwidth(spec, device, context))
    rounds = [one for one in records if isinstance(one, Round) and one.phase == "measure"]
    operations = dict.fromkeys(str(one.labels["operation"]) for one in rounds)
    return {
        "gbps": {
            name: _rate([one for one in rounds if one.labels["operation"] == name]) for name in operations
        },
        "rounds": len(rounds),
        "verified": all(one.verified for one in rounds),
        "events": [one.message for one in records if isinstance(one, Event)],
    }


def _rate(rounds: list[Round]) -> float:
    return sum(one.work for one in rounds) / sum(one.seconds for one in rounds)


def arguments() -> argparse.Namespace:
    """The command line."""
    measure = "seconds of the bare loop, per arm"
    parser = command_line(
        __doc__, pairs="bare + rigproof, followed by a bare", measure=measure, measure_s=0.6
    )
    parser.add_argument("--mib", type=float, default=1024, help="of each buffer")
    parser.add_argument("--duration", type=float, default=3.0, help="seconds of the stage, per arm")
    return parser.parse_args()


def main() -> None:
    """Bare and rigproof in turn; print and write the ratio of their means."""
    given = arguments()
    device = open_device(given.device, given.threads)
    size = buffer_size(given.mib)
    bare, arms = [], []
    for _ in range(given.pairs):
        bare.append(bare_rate(device, size, given.measure))
        arms.append(rigproof_rates(device, size, given))
    bare.append(bare_rate(device, size, given.measure))
    mean_bare = sum(bare) / len(bare)
    result = {
        "device": device.name,
        "torch": torch.__version__,
        "size": size,
        "bare_copy_gbps": bare,
        "rigproof": arms,
        "ratio": sum(arm["gbps"]["copy"] for arm in arms) / len(arms) / mean_bare,
    }
    tell(result, given.out)


if __name__ == "__main__":
    main()
