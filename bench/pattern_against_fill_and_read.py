"""How close the pattern stage's passes come to torch's own fill and read of the same memory.

One process, one run, arms interleaved: bare, passes, bare, passes, bare. The bare arm fills the chunks with a
constant and sums them, without a check. The passes write one pattern to all chunks and compare every word.

    python3 bench/pattern_against_fill_and_read.py --gib 100 --out pattern.json

With `--flip` the stage runs instead, and one bit is changed between a pass that writes and one that reads:

    python3 bench/pattern_against_fill_and_read.py --gib 100 --flip
"""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from rates import command_line, records_of, tell

from rigproof.devices.device import Device
from rigproof.devices.opening import open_device
from rigproof.devices.reporting import Reporter
from rigproof.devices.specs import WorkerContext
from rigproof.devices.vram_policy import VramPolicy
from rigproof.records.measurements import Event, Round
from rigproof.stages.pattern.choosing import choose, own_kernel_cache
from rigproof.stages.pattern.comparing import Comparing
from rigproof.stages.pattern.filling import MIB, TestedMemory
from rigproof.stages.pattern.passes import Content
from rigproof.stages.pattern.stage import MEANINGS, PatternSpec, VramError
from rigproof.stages.pattern.workload import run_pattern

BIT = 17
FREE_SHARE = 0.95


def bare_rates(device: Device, memory: TestedMemory, times: int) -> dict[str, float]:
    """GB/s of torch's fill, and of its sum as a read."""
    gb = times * memory.mib * MIB / 1e9
    start = device.mark()
    for number in range(times):
        for chunk in memory.chunks:
            chunk.words.fill_(number)
    filled = device.mark()
    for _ in range(times):
        for chunk in memory.chunks:
            chunk.words.sum()
    read = device.mark()
    read.wait()
    return {"fill": gb / filled.seconds_since(start), "read": gb / read.seconds_since(filled)}


def pass_rates(comparing: Comparing, pattern: str, times: int) -> dict[str, float | bool]:
    """GB/s of a pattern's passes, and whether all of them were good."""
    gb = times * comparing.memory.mib * MIB / 1e9
    seconds = dict.fromkeys(("write", "invert", "check"), 0.0)
    good = True
    for seed in range(1, times + 1):
        content = Content(pattern, seed)
        done = {
            "write": comparing.write(content),
            "invert": comparing.compare(content, invert=True),
            "check": comparing.compare(content.inverted, invert=False),
        }
        for name, one in done.items():
            seconds[name] += one.seconds
            good = good and one.good
    rates = {name: (2 if name == "invert" else 1) * gb / spent for name, spent in seconds.items()}
    return {**rates, "good": good}


def measured(given: argparse.Namespace) -> dict:
    """All arms in turn."""
    device = open_device(given.device, given.threads)
    result: dict = {"device": device.name, "torch": torch.__version__, "pattern": given.pattern}

    def work(context: WorkerContext) -> None:
        reporter = Reporter(context, "pattern")
        make, reason = choose(device)
        memory = TestedMemory(
            _spec(given), device, reporter, VramPolicy(_spec(given).memory, device, reporter)
        )
        memory.fill()
        passes = make(memory.chunks)
        comparing = Comparing(memory, passes, device, reporter)
        bare, arms = [], []
        bare_rates(device, memory, 1)
        pass_rates(comparing, given.pattern, 1)
        for _ in range(given.pairs):
            bare.append(bare_rates(device, memory, given.times))
            arms.append(pass_rates(comparing, given.pattern, given.times))
        bare.append(bare_rates(device, memory, given.times))
        mean = {name: sum(one[name] for one in bare) / len(bare) for name in ("fill", "read")}
        each = {name: sum(one[name] for one in arms) / len(arms) for name in ("write", "check")}
        gb = memory.mib * MIB / 1e9
        bare_s, passes_s = (sum(gb / rate for rate in rates.values()) for rates in (mean, each))
        result.update(
            {
                "passes_by": passes.name,
                "reason": reason,
                "gib": memory.mib / 1024,
                "bare_gbps": bare,
                "passes_gbps": arms,
                "write_over_fill": each["write"] / mean["fill"],
                "check_over_read": each["check"] / mean["read"],
                "written_and_verified_s": passes_s,
                "ratio": bare_s / passes_s,
                "good": all(one["good"] for one in arms),
            }
        )
        memory.release()

    with own_kernel_cache():
        records = records_of(work)
    result["events"] = [one.message for one in records if isinstance(one, Event)]
    return result


def flipped(given: argparse.Namespace) -> dict:
    """The stage, with one bit of one word changed once in its middle."""
    device = open_device(given.device, given.threads)
    changed: list[dict] = []

    def disturb(memory: TestedMemory, content: Content) -> None:
        if changed:
            return
        number = memory.words // 2 + 12345
        word = memory.read(number) ^ (1 << BIT)
        memory.put(number, word)
        changed.append(
            {"pattern": content.pattern, "byte": 8 * number, "address": f"{memory.address(number):x}"}
        )

    records = records_of(lambda context: run_pattern(_spec(given), device, context, disturb))
    errors = [asdict(one) for one in records if isinstance(one, VramError)]
    rounds = [one for one in records if isinstance(one, Round)]
    one = errors[0] if len(errors) == 1 else {}
    return {
        "device": device.name,
        "torch": torch.__version__,
        "changed": changed,
        "errors": errors,
        "found_exactly_it": bool(one)
        and (one["offset"], one["address"], one["bits"])
        == (changed[0]["byte"], changed[0]["address"], str(BIT)),
        "rounds": len(rounds),
        "unverified": sum(not one.verified for one in rounds),
        "events": [one.message for one in records if isinstance(one, Event) and one.kind != "memory_policy"],
    }


def _spec(given: argparse.Namespace) -> PatternSpec:
    most_mib = given.gib * 1024 / FREE_SHARE
    return PatternSpec("pattern", given.measure, 0.0, FREE_SHARE, most_mib=most_mib)


def arguments() -> argparse.Namespace:
    """The command line."""
    measure = "seconds of the stage's passes, with --flip"
    parser = command_line(__doc__, pairs="bare + passes, followed by a bare", measure=measure, measure_s=4.0)
    parser.add_argument("--gib", type=float, default=100, help="tested; less if less is free")
    parser.add_argument("--times", type=int, default=5, help="that each arm goes over the memory")
    parser.add_argument("--pattern", choices=tuple(MEANINGS), default="random")
    parser.add_argument("--flip", action="store_true", help="change one bit, and show that it is found")
    return parser.parse_args()


def main() -> None:
    """Print and write the ratio, or what the changed bit led to."""
    given = arguments()
    tell(flipped(given) if given.flip else measured(given), given.out)


if __name__ == "__main__":
    main()
