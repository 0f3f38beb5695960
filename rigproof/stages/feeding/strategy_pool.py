"""Plays strategies in parallel, each in a process of its own, so that a failure affects no other.

A fork costs some milliseconds, a `host.child.Child` the start of an interpreter. Because it forks, the pool
must run in a process without CUDA and Ray: see `reward_process`, which is a Child. Processes that play
several strategies would save forks, but it would not be certain which strategy killed a process. Libraries of
pools know a limit by the clock on the wall alone, which kills strategies that only wait for a CPU.
"""

import multiprocessing
import os
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Literal

from rigproof.host.parent import die_with_parent
from rigproof.host.proc import cpu_seconds, own_memory
from rigproof.stages.feeding.strategies import InvalidStrategyError, Strategy, parse, reward

End = Literal["played", "invalid", "timed_out", "crashed", "out_of_memory"]

POLL_S = 0.05  # the precision of the time limit
WAITING = 10  # times its limit until a strategy has ended that waits for a CPU, or for anything else
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Played:
    """One completion's reward, 0 if its game was not played to the end."""

    reward: float
    end: End


@dataclass(frozen=True, slots=True)
class Game:
    """A strategy that is being played: its place among the completions, and its process."""

    place: int
    process: ForkProcess
    answer: Connection
    begun_s: float = field(default_factory=time.monotonic)

    def late(self, strategy_s: float) -> bool:
        """Whether it has worked for longer than it may, or got less than a tenth of a CPU for that long."""
        pid = self.process.pid
        assert pid is not None
        return cpu_seconds(pid) >= strategy_s or time.monotonic() - self.begun_s >= WAITING * strategy_s

    def result(self) -> Played:
        """What its process answered."""
        try:
            played: Played = self.answer.recv()
        except Exception:  # it died, or its answer cannot be read
            return Played(0.0, "crashed")
        return played

    def end(self) -> None:
        """End its process, whatever it does."""
        self.process.kill()
        self.process.join()
        self.process.close()
        self.answer.close()


class StrategyPool:
    """Plays strategies in at most `processes` processes at a time.

    A strategy that works for `strategy_s` of CPU time, crashes, or takes `memory_mib` more than its process
    has at the start affects no other. Its process dies with the thread that started it.
    """

    def __init__(self, processes: int, strategy_s: float, memory_mib: float) -> None:
        self._processes = processes
        self._strategy_s = strategy_s
        self._memory_mib = memory_mib
        self._context = multiprocessing.get_context("fork")

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
        games: list[Game] = []
        for place, strategy in strategies.items():
            while len(games) >= (self._processes if parallel else 1):
                games = self._take_ended(games, results)
            games.append(self._start(place, strategy, seed))
        while games:
            games = self._take_ended(games, results)
        return [results[place] for place in range(len(completions))]

    def _start(self, place: int, strategy: Strategy, seed: int) -> Game:
        answer, own_end = self._context.Pipe(duplex=False)
        arguments = (own_end, strategy, seed, os.getpid(), self._memory_mib)
        process = self._context.Process(target=_play, args=arguments, daemon=True)
        process.start()
        own_end.close()  # so that the answer ends with its process
        return Game(place, process, answer)

    def _take_ended(self, games: list[Game], results: dict[int, Played]) -> list[Game]:
        """Wait a little; move the results of those that have ended. Returns the others."""
        answered = wait([game.answer for game in games], POLL_S)
        going_on = []
        for game in games:
            if game.answer in answered:
                results[game.place] = game.result()
            elif game.late(self._strategy_s):
                results[game.place] = Played(0.0, "timed_out")
            else:
                going_on.append(game)
                continue
            game.end()
        return going_on


def _play(answer: Connection, strategy: Strategy, seed: int, owner: int, memory_mib: float) -> None:
    """Play one strategy in its process. Its memory is freed before anything else is allocated."""
    result = 0.0
    end: End = "played"
    try:
        _confine(owner, memory_mib)
        result = reward(strategy, seed)
    except MemoryError:
        end = "out_of_memory"
    except Exception:  # a strategy may raise anything
        end = "crashed"
    answer.send(Played(result, end))


def _confine(owner: int, memory_mib: float) -> None:
    """Confine this process: it dies with its owner, prints nothing, and its memory is limited."""
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
