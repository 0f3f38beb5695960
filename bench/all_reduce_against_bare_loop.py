"""How close rigproof's verified all-reduces come to a bare torch.distributed loop of the same size.

Two ranks or more, each a process; in them, in one run and one group, arms interleaved: bare, rigproof, bare,
rigproof, bare. The bare loop is `all_reduce` in place, again and again, without a check, and with a first and
a last event only. It goes round as many buffers as rigproof does: fewer would stay in the L2 cache of a large
GPU. The rate is bus bandwidth; of both arms the slower rank counts.

A bare loop is queued thousands of operations ahead, a round of rigproof 64 at most: when a host is late by
milliseconds, as shared ones are, only rigproof's GPUs wait. Such rounds do not count, as in a verdict beside
others; the result has their number, `late_rounds`, and `gbps_with_late`.

    python3 bench/all_reduce_against_bare_loop.py --out all_reduce.json
    python3 bench/all_reduce_against_bare_loop.py --device cpu --sizes 1 16
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import torch.distributed as dist
from rates import command_line, tell

from rigproof.devices.process_group import Steps, join, meeting_place
from rigproof.devices.specs import GLOO, NCCL
from rigproof.host.addresses import free_ports
from rigproof.records.crews import Member
from rigproof.records.measurements import Round
from rigproof.stages.collective.stage import ALL_REDUCE, BUFFERS, Case, CollectiveSpec
from rigproof.stages.collective.workload import RankWork

PATIENCE_S = 600.0


class Measured(RankWork):
    """A rank that measures one size at a time, for as long as it is told."""

    def rounds(self, mib: int, seconds: float) -> list[Round]:
        """The measured rounds of odd and even numbers of elements."""
        self._operation = ALL_REDUCE
        self.context.records.clear()
        for odd in (True, False):
            self._end_s = self.context.now_s() + seconds / 2
            self._limit_s = self.steps.outside_s = PATIENCE_S
            self._agree()
            self._case(Case(ALL_REDUCE, mib, odd), 0.0)
        return [one for one in self.context.records if one.phase == "measure"]

    def at_own_pace(self, rounds: list[Round]) -> list[Round]:
        """Those in which no rank waited for its host."""
        waited = torch.tensor([float(bool(one.host_paced)) for one in rounds], device=self.place.where)
        dist.all_reduce(waited, op=dist.ReduceOp.MAX)
        return [one for one, is_late in zip(rounds, waited.tolist(), strict=True) if not is_late]


def rate(rounds: list[Round]) -> float:
    """GB/s."""
    return sum(one.work for one in rounds) / sum(one.seconds for one in rounds)


def bare(work: Measured, mib: int, seconds: float, buffers: int) -> float:
    """Bus bandwidth of a loop that does nothing else, GB/s."""
    ranks = dist.get_world_size()
    elements = Case(ALL_REDUCE, mib, odd=False).elements(ranks)
    rows = [torch.zeros(elements, device=work.place.where) for _ in range(buffers)]
    count = 3
    for target_s in (seconds / 4, seconds):
        dist.barrier()
        dist.all_reduce(rows[0])
        start = work.place.mark()
        for number in range(count):
            dist.all_reduce(rows[number % buffers])
        end = work.place.mark()
        end.wait()
        each_s = torch.tensor(end.seconds_since(start) / count, device=work.place.where)
        dist.all_reduce(each_s, op=dist.ReduceOp.MAX)  # the same count on all
        found = float(each_s)
        if target_s < seconds:
            count = max(3, int(seconds / found))
    return 2 * (ranks - 1) / ranks * elements * 4 / 1e9 / found


def rank_of(rank: int, port: int, given: argparse.Namespace, results: Any) -> None:
    """One rank, in a process of its own."""
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - for its worker, which is not there
    if given.device == "cuda":
        os.environ["CUDA_VISIBLE_DEVICES"] = str(rank)
    crew = Member("bench", rank, given.ranks, ("127.0.0.1", port))
    records: list[Any] = []
    context = SimpleNamespace(
        worker=f"bench#{rank}", subject="bench", crew=crew, records=records, emit=records.append
    )
    context.now_s, context.stopped, context.alive = time.monotonic, lambda: False, lambda: None
    backend = NCCL if given.device == "cuda" else GLOO
    spec = CollectiveSpec(
        "collective",
        backend=backend,
        rig_backend=backend,
        operations=(ALL_REDUCE,),
        sizes_mib=(),
        other_sizes_mib=(),
        buffers_mib=BUFFERS * max(given.sizes),
        threads=given.threads,
        seconds=given.measure,
        round_s=0.02,
        join_s=PATIENCE_S,
        first_s=PATIENCE_S,
        least_s=PATIENCE_S,
        patience=20.0,
    )
    with meeting_place(crew):
        work = Measured(spec, context)
        work.steps = Steps(PATIENCE_S)
        join(crew, work.place, work.steps, PATIENCE_S)
        found = {}
        for mib in given.sizes:
            buffers = given.buffers or 1 + int(work.rounds(mib, 0.0)[-1].labels["repeats"])
            plain, own, with_late, number, late, verified = [], [], [], 0, 0, True
            for _ in range(given.pairs):
                plain.append(bare(work, mib, given.measure, buffers))
                rounds = work.rounds(mib, given.measure)
                counted = work.at_own_pace(rounds)
                own.append(rate(counted or rounds))
                with_late.append(rate(rounds))
                number, late = number + len(rounds), late + len(rounds) - len(counted)
                verified = verified and all(one.verified for one in rounds)
            plain.append(bare(work, mib, given.measure, buffers))
            found[mib] = {
                "bare_gbps": plain,
                "rigproof_gbps": own,
                "gbps_with_late": with_late,
                "rounds": number,
                "late_rounds": late,
                "buffers": buffers,
                "verified": verified,
            }
        dist.barrier()
        results.put((rank, found))
        dist.barrier()


def main() -> None:
    """Print and write the ratio of the means, by size."""
    parser = command_line(
        __doc__, pairs="bare + rigproof, followed by a bare", measure="seconds of each arm", measure_s=1.0
    )
    parser.add_argument("--ranks", type=int, default=2, help="the first so many GPUs")
    parser.add_argument("--sizes", type=int, nargs="+", default=[16, 1024], help="MiB")
    parser.add_argument("--buffers", type=int, help="that the bare loop goes round, not rigproof's number")
    given = parser.parse_args()
    (port,) = free_ports("127.0.0.1", 1)
    spawning = multiprocessing.get_context("spawn")
    results = spawning.SimpleQueue()
    ranks = [
        spawning.Process(target=rank_of, args=(rank, port, given, results)) for rank in range(given.ranks)
    ]
    for one in ranks:
        one.start()
    found = dict(results.get() for _ in ranks)
    for one in ranks:
        one.join()

    def slower(mib: int, arm: str) -> float:
        return min(sum(found[rank][mib][arm]) / len(found[rank][mib][arm]) for rank in found)

    result = {
        "torch": torch.__version__,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if given.device == "cuda" else None,
        "ranks": {str(rank): found[rank] for rank in sorted(found)},
        "ratio": {str(mib): slower(mib, "rigproof_gbps") / slower(mib, "bare_gbps") for mib in given.sizes},
    }
    tell(json.loads(json.dumps(result)), given.out)


if __name__ == "__main__":
    main()
