"""The process that computes rewards: `python -m …feeding.reward_process PROCESSES SECONDS MIB`.

It reads one job per line of JSON from stdin, writes one answer per line to stdout, and ends at once, with its
pool, when stdin closes, as it also does when the parent dies.

It plays strategies in parallel, each in a forked process of its own, so that a failure affects no other;
since it forks, it uses neither CUDA nor Ray. A fork costs some milliseconds, a `host.child.Child` the start
of an interpreter. Processes that play several strategies would save forks, but it would not be certain which
one killed a process: `pebble.ProcessPool` sometimes blames the strategy before it, which had ended well. One
thread starts, hears and ends them all: with a thread for each (`pebble.concurrent`), which wait for processes
that another one may already have waited for, one of some 26,000 games was never answered.
"""

import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from rigproof.host.parent import Orders, die_with_parent, tell
from rigproof.host.proc import own_memory
from rigproof.stages.feeding.strategies import InvalidStrategyError, Strategy, parse, reward

WAITING = 10  # times its limit, by the clock, for a strategy that waits for a CPU, or blocks signals
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


class _Game(NamedTuple):
    """A strategy's process, which sends how it ended."""

    place: int
    process: Any  # of multiprocessing's fork context
    answer: Connection
    until_s: float  # by the clock


class StrategyPool:
    """Plays strategies in at most `processes` processes at a time.

    A strategy that works for `strategy_s` of CPU time, crashes, or takes `memory_mib` more than its process
    has at the start affects no other. Its process dies with the thread that started it.
    """

    def __init__(self, processes: int, strategy_s: float, memory_mib: float) -> None:
        self._processes = processes
        self._patience_s = WAITING * strategy_s
        self._limits = (os.getpid(), strategy_s, memory_mib)
        self._forking = multiprocessing.get_context("fork")

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
        running: list[_Game] = []
        for place, strategy in strategies.items():
            if len(running) >= (self._processes if parallel else 1):
                _take_ended(running, results)
            running.append(self._start(place, strategy, seed))
        while running:
            _take_ended(running, results)
        return [results[place] for place in range(len(completions))]

    def _start(self, place: int, strategy: Strategy, seed: int) -> _Game:
        answer, own_end = self._forking.Pipe(duplex=False)
        until_s = time.monotonic() + self._patience_s
        process = self._forking.Process(target=_play, args=(own_end, strategy, seed, self._limits))
        process.start()
        own_end.close()  # so that the process's death is heard
        return _Game(place, process, answer, until_s)


def _take_ended(running: list[_Game], results: dict[int, Played]) -> None:
    """Wait until at least one has ended, or its time is over; move all that have."""
    left_s = min(one.until_s for one in running) - time.monotonic()
    heard = wait([one.answer for one in running], max(0.0, left_s))
    for game in list(running):
        if game.answer in heard or time.monotonic() >= game.until_s:
            running.remove(game)
            results[game.place] = _result_of(game)


def _result_of(game: _Game) -> Played:
    """How it ended; its process is gone afterwards, which has nothing to clean up."""
    played: Played = (0.0, "timed_out")
    if game.answer.poll():
        try:
            played = game.answer.recv()
        except (EOFError, OSError):  # it died
            game.process.join(max(0.0, game.until_s - time.monotonic()))
            played = (0.0, "timed_out" if game.process.exitcode == -signal.SIGPROF else "crashed")
    game.process.kill()
    game.process.join()
    game.process.close()
    game.answer.close()
    return played


def _play(answer: Connection, strategy: Strategy, seed: int, limits: tuple[int, float, float]) -> None:
    """Play one strategy in its process, and send how it ended."""
    answer.send(_played(strategy, seed, limits))


def _played(strategy: Strategy, seed: int, limits: tuple[int, float, float]) -> Played:
    """How it ended. Its memory is freed before anything else is allocated."""
    try:
        _confine(*limits)
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
