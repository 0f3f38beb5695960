"""The process that computes rewards: `python -m …feeding.reward_process PROCESSES SECONDS MIB`.

It reads one job per line of JSON from stdin, writes one answer per line to stdout, and ends at once, with its
pool, when stdin closes, as it also does when the parent dies.

It plays strategies in parallel, each in a forked process of its own, so that a failure affects no other;
since it forks, it uses neither CUDA nor Ray. A fork costs some milliseconds, a `host.child.Child` the start
of an interpreter. Processes that play several strategies would save forks, but it would not be certain which
one killed a process: `pebble.ProcessPool` sometimes blames the strategy before it, which had ended well.
"""

import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from typing import Any

import pebble

from rigproof.host.parent import Orders, die_with_parent, tell
from rigproof.host.proc import own_memory
from rigproof.stages.feeding.strategies import InvalidStrategyError, Strategy, parse, reward

POLL_S = 0.05  # the precision of the limit by the clock
WAITING = 10  # times its limit, by the clock, for a strategy that waits for a CPU, or blocks signals
TERM_S = 0.2  # after SIGTERM, until SIGKILL; a strategy has nothing to clean up
MIB = 2**20

Played = tuple[float, str]  # the reward, 0 if the game was not played to its end, and how it ended


def main(processes: int, strategy_s: float, memory_mib: float) -> None:
    """Do one job after the other until stdin is closed."""
    jobs = Orders(grace_s=0)
    pool = StrategyPool(processes, strategy_s, memory_mib)
    while (job := jobs.next()) is not None:  # in the main thread: strategies' processes die when it ends
        begun_s = time.perf_counter()
        played = pool.rewards(job["completions"], job["seed"], parallel=job["parallel"])
        seconds = time.perf_counter() - begun_s
        tell(seconds=seconds, rewards=[one for one, _ in played], ends=[end for _, end in played])


class StrategyPool:
    """Plays strategies in at most `processes` processes at a time.

    A strategy that works for `strategy_s` of CPU time, crashes, or takes `memory_mib` more than its process
    has at the start affects no other. Its process dies with the thread that started it.
    """

    def __init__(self, processes: int, strategy_s: float, memory_mib: float) -> None:
        pebble.CONSTS.sleep_unit = POLL_S
        pebble.CONSTS.term_timeout = TERM_S
        self._processes = processes
        self._owner = os.getpid()
        self._limits = (strategy_s, memory_mib)
        context = multiprocessing.get_context("fork")
        self._start = pebble.concurrent.process(timeout=WAITING * strategy_s, context=context)(_play)

    def rewards(self, completions: Sequence[Sequence[int]], seed: int, *, parallel: bool) -> list[Played]:
        """The rewards of completions, in their order, all for the seed's game.

        First all are checked, then the valid strategies are played: in parallel, or in the same way but one
        after the other.
        """
        results: dict[int, Played] = {}
        strategies: dict[int, Strategy] = {}
        for place, completion in enumerate(completions):
            try:
                strategies[place] = parse(completion)
            except InvalidStrategyError:
                results[place] = (0.0, "invalid")
        running: dict[Any, int] = {}  # by future
        for place, strategy in strategies.items():
            if len(running) >= (self._processes if parallel else 1):
                _take_ended(running, results)
            running[self._start(strategy, seed, self._owner, *self._limits)] = place
        while running:
            _take_ended(running, results)
        return [results[place] for place in range(len(completions))]


def _take_ended(running: dict[Any, int], results: dict[int, Played]) -> None:
    """Wait until at least one has ended; move all that have. A future is done once its process is gone."""
    for future in wait(running, return_when=FIRST_COMPLETED).done:
        results[running.pop(future)] = _result_of(future)


def _result_of(future: Any) -> Played:
    try:
        played: Played = future.result()
    except TimeoutError:
        return 0.0, "timed_out"
    except pebble.ProcessExpired as died:
        return 0.0, "timed_out" if died.exitcode == -signal.SIGPROF else "crashed"
    except Exception:  # its answer cannot be read
        return 0.0, "crashed"
    return played


def _play(strategy: Strategy, seed: int, owner: int, strategy_s: float, memory_mib: float) -> Played:
    """Play one strategy in its process. Its memory is freed before anything else is allocated."""
    try:
        _confine(owner, strategy_s, memory_mib)
        return reward(strategy, seed), "played"
    except MemoryError:
        end = "out_of_memory"
    except Exception:  # a strategy may raise anything
        end = "crashed"
    return 0.0, end


def _confine(owner: int, strategy_s: float, memory_mib: float) -> None:
    """Confine this process: it dies with its owner, prints nothing, its CPU time and memory are limited."""
    die_with_parent(owner)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):  # the owner's pipes must close with the owner
        os.dup2(null, stream)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit = own_memory().mapped + int(memory_mib * MIB)
    hard_limit = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard_limit != resource.RLIM_INFINITY:
        limit = min(limit, hard_limit)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    signal.setitimer(signal.ITIMER_PROF, strategy_s)  # SIGPROF ends it


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
