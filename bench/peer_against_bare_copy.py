"""How close rigproof's verified copies between two GPUs come to bare copies of the same size.

All pairs of the first `--gpus` GPUs, one pair after the other, each both ways. One process, one run; in each
pair arms interleaved: bare, rigproof, bare, rigproof, bare. The bare copy is `copy_` between
the devices, without a check and without an event but its first and last. `stored_by` has the kernels that the
devices run, by their number, while one stores into the other's memory.

    python3 bench/peer_against_bare_copy.py --out peer.json
"""

import argparse
import itertools
import math
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from rates import command_line, records_of, tell

from rigproof.records.measurements import Event, Round
from rigproof.stages.peer.copies import Card, Lane, copied, odd_words, on
from rigproof.stages.peer.stage import ARMS, ENGINE, KERNEL, PeerSpec
from rigproof.stages.peer.workload import LANES, PairWork
from rigproof.telemetry.nvml.peers import Connection

WAYS = tuple(LANES)


class Bare:
    """Memory on two devices, and copies between them."""

    def __init__(self, cards: tuple[Card, Card], mib: int) -> None:
        self.cards = cards
        words = odd_words(mib)
        self.rows = [
            (card, other, *(torch.ones(words, dtype=torch.int64, device=one.where) for one in (other, card)))
            for card, other in (cards, cards[::-1])
        ]
        self.gb = words * 8 / 1e9
        for card in cards:
            card.wait()

    def rates(self, measure_s: float) -> dict[str, float]:
        """GB/s by way, each of one long run of copies."""
        found = {}
        for way in WAYS:
            each_s = self._run(way, 4)
            each_s = self._run(way, max(4, int(measure_s / 4 / each_s)))
            seconds = self._run(way, max(4, int(measure_s / each_s)))
            found[way] = len(LANES[way]) * self.gb / seconds
        return found

    def _run(self, way: str, count: int) -> float:
        """Device seconds of one copy each way, mean over `count`."""
        rows = [self.rows[one] for one in LANES[way]]
        first = rows[0][0].sends
        start = first.mark()
        for sender, *_ in rows[1:]:
            sender.sends.after(start)
        for _ in range(count):
            for sender, receiver, target, source in rows:
                with on(sender.sends, receiver.receives):
                    target.copy_(source, non_blocking=True)
        for sender, *_ in rows[1:]:
            first.after(sender.sends.mark())
        end = first.mark()
        end.wait()
        return end.seconds_since(start) / count


def rigproof_rates(cards: tuple[Card, Card], given: argparse.Namespace, *, direct: bool) -> dict:
    """What the peer stage measures, by means and way, and whether all of it was verified."""
    begun_s = time.monotonic()
    spec = PeerSpec("peer", (), (), mib=given.mib, pair_s=given.duration, setup_s=0.0)
    records = records_of(
        lambda context: PairWork(spec, "bench", cards, context).run(Connection(), direct, direct)
    )
    took_s = time.monotonic() - begun_s
    rounds = [one for one in records if isinstance(one, Round)]
    measured = [one for one in rounds if one.phase == "measure"]
    by_arm = {arm: [one for one in measured if (one.labels["by"], one.labels["way"]) == arm] for arm in ARMS}
    return {
        "gbps": {" ".join(arm): _rate(own) for arm, own in by_arm.items() if own},
        "mib": sorted({one.labels["mib"] for one in measured}),
        "rounds": {" ".join(arm): len(own) for arm, own in by_arm.items()},
        "verified": all(one.verified for one in rounds),
        "events": [one.message for one in records if isinstance(one, Event)],
        "took_s": round(took_s, 3),
    }


def _rate(rounds: list[Round]) -> float:
    return sum(one.work for one in rounds) / sum(one.seconds for one in rounds)


def stored_by(cards: tuple[Card, Card]) -> list[str]:
    """The kernels and copies on each device during one verified copy by a kernel's stores."""
    lane = Lane(*cards, odd_words(64))
    copied([lane], KERNEL)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        copied([lane], KERNEL)
    return [f"{one.device_index}: {one.name[:120]}" for one in profile.events()]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = command_line(
        __doc__,
        pairs="bare + rigproof, followed by a bare",
        measure="seconds of the bare copies, per way and arm",
        measure_s=0.2,
    )
    parser.add_argument("--gpus", type=int, default=2, help="of which all pairs are measured")
    parser.add_argument("--mib", type=int, default=512, help="of each buffer")
    parser.add_argument("--duration", type=float, default=0.1, help="seconds of a pair in the stage, per arm")
    return parser.parse_args()


def compared(pair: tuple[int, int], given: argparse.Namespace) -> dict:
    """What one pair's arms measured, bare and rigproof in turn, and the ratio of their means, by way."""
    on_gpus = given.device == "cuda"
    first, second = (torch.device("cuda", one) if on_gpus else torch.device("cpu") for one in pair)
    cards = Card(0, first), Card(1, second)
    direct = not on_gpus or torch.cuda.can_device_access_peer(*pair)
    bare, arms = [], []
    rigproof_rates(cards, given, direct=direct)  # which sets up what later copies find
    plain = Bare(cards, given.mib)
    for _ in range(given.pairs):
        bare.append(plain.rates(given.measure))
        arms.append(rigproof_rates(cards, given, direct=direct))
    bare.append(plain.rates(given.measure))

    def mean(found: list[dict[str, float]], name: str) -> float:
        return sum(one.get(name, math.nan) for one in found) / len(found)

    return {
        "direct": direct,
        "bare_gbps": bare,
        "rigproof": arms,
        "ratio": {
            way: mean([arm["gbps"] for arm in arms], f"{ENGINE} {way}") / mean(bare, way) for way in WAYS
        },
        "stored_by": stored_by(cards) if on_gpus and direct else [],
    }


def main() -> None:
    """Print and write what all pairs measured, and their least ratio, by way."""
    given = arguments()
    pairs = list(itertools.combinations(range(given.gpus), 2))
    found = [compared(pair, given) for pair in pairs]
    result = {
        "device": torch.cuda.get_device_name(0) if given.device == "cuda" else "CPU",
        "torch": torch.__version__,
        "mib": given.mib,
        "pairs": {"+".join(map(str, pair)): one for pair, one in zip(pairs, found, strict=True)},
        "least_ratio": {way: min(one["ratio"][way] for one in found) for way in WAYS},
    }
    tell(result, given.out)


if __name__ == "__main__":
    main()
