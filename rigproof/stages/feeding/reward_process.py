"""The process that computes rewards: `python -m …feeding.reward_process PROCESSES SECONDS MIB`.

It is clean of CUDA and Ray, so that its pool can fork. It reads one job a line of JSON from stdin, writes one
answer a line to stdout, and ends at once, with its pool, when stdin is closed, which the death of its parent
does too.
"""

import sys
import time
from typing import Any

from rigproof.host.parent import Orders, tell
from rigproof.stages.feeding.strategy_pool import StrategyPool


def main(processes: int, strategy_s: float, memory_mib: float) -> None:
    """Do one job after the other until stdin is closed."""
    jobs = Orders(grace_s=0)
    pool = StrategyPool(processes, strategy_s, memory_mib)
    while (job := jobs.next()) is not None:  # in the main thread: with its end the strategies' processes die
        tell(**done(pool, job))


def done(pool: StrategyPool, job: dict[str, Any]) -> dict[str, Any]:
    """The rewards of a job's completions, how each ended, and the seconds that all took."""
    begun_s = time.perf_counter()
    played = pool.rewards(job["completions"], job["seed"], parallel=job["parallel"])
    return {
        "seconds": time.perf_counter() - begun_s,
        "rewards": [one.reward for one in played],
        "ends": [one.end for one in played],
    }


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
