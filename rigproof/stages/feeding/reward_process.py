"""The process that computes rewards: `python -m …feeding.reward_process PROCESSES SECONDS MIB`.

It is clean of CUDA and Ray, so that its pool can fork. It reads one job a line of JSON from stdin, writes one
answer a line to stdout, and ends at once, with its pool, when stdin is closed, which the death of its parent
does too.
"""

import json
import os
import queue
import signal
import sys
import threading
import time
from typing import Any

from rigproof.stages.feeding.strategy_pool import StrategyPool


def main(processes: int, strategy_s: float, memory_mib: float) -> None:
    """Do one job after the other until stdin is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is its parent's to handle
    jobs: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(jobs,), daemon=True).start()
    pool = StrategyPool(processes, strategy_s, memory_mib)
    while True:  # in the main thread: with its end the strategies' processes die
        answer = json.dumps(done(pool, json.loads(jobs.get())))
        try:
            sys.stdout.write(answer + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            os._exit(1)  # nobody is left to tell


def done(pool: StrategyPool, job: dict[str, Any]) -> dict[str, Any]:
    """The rewards of a job's completions, how each ended, and the seconds that all took."""
    begun_s = time.perf_counter()
    played = pool.rewards(job["completions"], job["seed"], parallel=job["parallel"])
    return {
        "seconds": time.perf_counter() - begun_s,
        "rewards": [one.reward for one in played],
        "ends": [one.end for one in played],
    }


def _read(jobs: "queue.SimpleQueue[bytes]") -> None:
    """Split stdin into lines. Read past Python's buffer, whose lock a fork would copy."""
    rest = b""
    while data := os.read(0, 2**16):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            jobs.put(line)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
