"""The process that computes rewards: `python -m …feeding.reward_process PROCESSES SECONDS MIB`.

It uses neither CUDA nor Ray, so that its pool can fork. It reads one job per line of JSON from stdin, writes
one answer per line to stdout, and ends at once, with its pool, when stdin closes, as it also does when the
parent dies.
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
    while (job := jobs.next()) is not None:  # in the main thread: strategies' processes die when it ends
        tell(**done(pool, job))


def done(pool: StrategyPool, job: dict[str, Any]) -> dict[str, Any]:
    """The rewards of a job's completions, how each ended, and the seconds for all of them."""
    begun_s = time.perf_counter()
    played = pool.rewards(job["completions"], job["seed"], parallel=job["parallel"])
    return {
        "seconds": time.perf_counter() - begun_s,
        "rewards": [result.reward for result in played],
        "ends": [result.end for result in played],
    }


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
