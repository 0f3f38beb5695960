"""Plays strategies in parallel, each in a process of its own, so that a failure affects no other.

A fork costs some milliseconds, a `host.child.Child` the start of an interpreter. Because it forks, the pool
must run in a process without CUDA and Ray: see `reward_process`, which is a Child. Processes that play
several strategies would save forks, but it would not be certain which strategy killed a process:
`pebble.ProcessPool` sometimes blames the previous one, which had ended well.
"""

import multiprocessing
import os
import resource
import signal
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from typing import Any, Literal

import pebble

from rigproof.host.parent import die_with_parent
from rigproof.host.proc import own_memory
from rigproof.stages.feeding.strategies import InvalidStrategyError, Strategy, parse, reward

End = Literal["played", "invalid", "timed_out", "crashed", "out_of_memory"]

POLL_S = 0.05  # the precision of the limit by the clock
WAITING = 10  # times its limit, by the clock, for a strategy that waits for a CPU, or blocks signals
TERM_S = 0.2  # after SIGTERM, until SIGKILL; a strategy has nothing to clean up
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Played:
    """One completion's reward, 0 if its game was not played to the end."""

    reward: float
    end: End


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
                results[place] = Played(0.0, "invalid")
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
        return Played(0.0, "timed_out")
    except pebble.ProcessExpired as died:
        return Played(0.0, "timed_out" if died.exitcode == -signal.SIGPROF else "crashed")
    except Exception:  # its answer cannot be read
        return Played(0.0, "crashed")
    return played


def _play(strategy: Strategy, seed: int, owner: int, strategy_s: float, memory_mib: float) -> Played:
    """Play one strategy in its process. Its memory is freed before anything else is allocated."""
    end: End = "played"
    try:
        _confine(owner, strategy_s, memory_mib)
        return Played(reward(strategy, seed), end)
    except MemoryError:
        end = "out_of_memory"
    except Exception:  # a strategy may raise anything
        end = "crashed"
    return Played(0.0, end)


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
