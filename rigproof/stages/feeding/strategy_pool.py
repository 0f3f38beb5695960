"""Strategies played side by side, each in a process of its own, at its own risk.

A fork costs some milliseconds where a `host.child.Child` costs an interpreter's start. It forks, so it has to
live in a process that is clean of CUDA and Ray: see `reward_process`, which is a Child. Processes that play
one strategy after the other would save the forks, some milliseconds each, but not tell for sure which
strategy a process died of: `pebble.ProcessPool` at times blames the one before, which had ended well.
"""

import multiprocessing
import os
import resource
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from typing import Any, Literal

import pebble

from rigproof.host.parent import die_with_parent
from rigproof.host.proc import own_memory
from rigproof.stages.feeding.strategies import InvalidStrategyError, Strategy, parse, reward

End = Literal["played", "invalid", "timed_out", "crashed", "out_of_memory"]

POLL_S = 0.05  # how exactly the time limit is kept
TERM_S = 0.2  # then what does not end by itself is killed; a strategy has nothing to clean up
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Played:
    """One completion's reward, 0 where it did not play its game to the end."""

    reward: float
    end: End


class StrategyPool:
    """Plays strategies in at most `processes` processes at a time.

    A strategy that runs for `strategy_s`, crashes, or takes `memory_mib` beyond what its process has at its
    start costs itself alone. Its process dies with the thread that asked for it.
    """

    def __init__(self, processes: int, strategy_s: float, memory_mib: float) -> None:
        pebble.CONSTS.sleep_unit = POLL_S
        pebble.CONSTS.term_timeout = TERM_S
        self._processes = processes
        self._owner = os.getpid()
        self._memory_mib = memory_mib
        context = multiprocessing.get_context("fork")
        self._start = pebble.concurrent.process(timeout=strategy_s, context=context)(_play)

    def rewards(self, completions: Sequence[Sequence[int]], seed: int, *, parallel: bool) -> list[Played]:
        """The rewards of completions, in their order, all for the seed's game.

        First all are checked, then those that are strategies are played: side by side, or, the same way but
        one after the other.
        """
        found: dict[int, Played] = {}
        strategies: dict[int, Strategy] = {}
        for place, completion in enumerate(completions):
            try:
                strategies[place] = parse(completion)
            except InvalidStrategyError:
                found[place] = Played(0.0, "invalid")
        running: dict[Any, int] = {}  # futures
        for place, strategy in strategies.items():
            if len(running) >= (self._processes if parallel else 1):
                _take_ended(running, found)
            running[self._start(strategy, seed, self._owner, self._memory_mib)] = place
        while running:
            _take_ended(running, found)
        return [found[place] for place in range(len(completions))]


def _take_ended(running: dict[Any, int], found: dict[int, Played]) -> None:
    """Wait until at least one ended, and move all that did. A future is done once its process is gone."""
    for future in wait(running, return_when=FIRST_COMPLETED).done:
        found[running.pop(future)] = _end_of(future)


def _end_of(future: Any) -> Played:
    try:
        played: Played = future.result()
    except TimeoutError:
        return Played(0.0, "timed_out")
    except Exception:  # its process died, or what it sent cannot be read
        return Played(0.0, "crashed")
    return played


def _play(strategy: Strategy, seed: int, owner: int, memory_mib: float) -> Played:
    """What a process does. What the strategy held is free before anything else needs memory."""
    end: End = "played"
    try:
        _confine(owner, memory_mib)
        return Played(reward(strategy, seed), end)
    except MemoryError:
        end = "out_of_memory"
    except Exception:  # it may raise whatever it likes
        end = "crashed"
    return Played(0.0, end)


def _confine(owner: int, memory_mib: float) -> None:
    """Bind this process: it dies with its owner, says nothing, and has its memory limited."""
    die_with_parent(owner)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):  # the owner's pipes must close with the owner
        os.dup2(null, stream)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit = own_memory().mapped + int(memory_mib * MIB)
    hardest = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hardest != resource.RLIM_INFINITY:
        limit = min(limit, hardest)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
