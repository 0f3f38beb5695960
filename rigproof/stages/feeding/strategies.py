"""From a completion to its reward: a list of tokens that says how to play 2048 is checked, then played.

A completion is a list of token numbers. The last tokens are the answer; those before are reasoning:

    begin · four moves, the preferred first · how far to look ahead · end

No part of a completion is ever evaluated as code.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from rigproof.stages.feeding.game_2048 import MOVES, Board, Game, slid

# The tokens that a model may write. One of them is a move that the game does not have.
WORDS = (
    "begin",
    "end",
    *MOVES,
    "jump",
    "look ahead 1",
    "look ahead 2",
    "first",
    "then",
    "because",
    "corner",
    "merge",
    "empty",
    "wait",
)
# Instead of the look-ahead: strategies that fail in the middle of their game. The model never writes these
# words; the tests use them to show what each failure costs.
MISHAPS = ("hang", "ignore signals and hang", "abort", "exit", "eat memory", "raise")
TOKENS = (*WORDS, *MISHAPS)
LOOK_AHEAD = {"look ahead 1": 1, "look ahead 2": 2}
# The words that each place of a well-formed answer may hold.
ANSWER = (("begin",), *((*MOVES, "jump"),) * len(MOVES), (*LOOK_AHEAD, *MISHAPS), ("end",))
MISHAP_STEP = 50


class InvalidStrategyError(ValueError):
    """A completion that is not a valid strategy; the message says why."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """The order of preferred moves, and how many moves it looks ahead."""

    order: tuple[str, ...]
    ahead: int
    mishap: str | None = None


def parse(completion: Sequence[int]) -> Strategy:
    """The quick check: raises InvalidStrategyError unless it is well-formed and has only existing moves.

    A repeated move counts at its first place; moves that are not named come last.
    """
    answer = completion[-len(ANSWER) :]
    if len(answer) < len(ANSWER):
        raise InvalidStrategyError(f"{len(answer)} tokens are not an answer, which has {len(ANSWER)}")
    words = []
    for token, allowed in zip(answer, ANSWER, strict=True):
        word = TOKENS[token] if 0 <= token < len(TOKENS) else f"token {token}"
        if word not in allowed:
            raise InvalidStrategyError(f"“{word}” instead of one of {', '.join(allowed)}")
        words.append(word)
    _, *moves, ahead, _ = words
    for move in moves:
        if move not in MOVES:
            raise InvalidStrategyError(f"the game has no move “{move}”")
    return Strategy(
        order=tuple(dict.fromkeys((*moves, *MOVES))),
        ahead=LOOK_AHEAD.get(ahead, 1),
        mishap=ahead if ahead in MISHAPS else None,
    )


def completion_of(*words: str) -> tuple[int, ...]:
    """The tokens of these words. Raises ValueError for an unknown one."""
    for word in words:
        if word not in TOKENS:
            raise ValueError(f"no token is called {word}")
    return tuple(TOKENS.index(word) for word in words)


def reward(strategy: Strategy, seed: int) -> float:
    """Play the seed's game to its end, some ten milliseconds of work; returns the mean score per move."""
    game = Game(seed)
    while (move := _chosen(game.board, strategy)) is not None:
        game.make(move)
        if strategy.mishap is not None and game.steps == MISHAP_STEP:
            _fail(strategy.mishap)
    return game.score / game.steps


def _chosen(board: Board, strategy: Strategy) -> str | None:
    """The possible move with the highest gain; of equal ones the preferred. None at the game's end."""
    best, best_gain = None, -1
    for move in strategy.order:
        result = slid(board, move)
        if result is None:
            continue
        after, gained = result
        gain = gained + _most_gained(after, strategy.ahead)
        if gain > best_gain:
            best, best_gain = move, gain
    return best


def _most_gained(board: Board, moves: int) -> int:
    """The highest score of that many further moves, without new tiles."""
    if moves == 0:
        return 0
    results = (slid(board, move) for move in MOVES)
    return max(
        (gained + _most_gained(after, moves - 1) for after, gained in filter(None, results)), default=0
    )


def _fail(mishap: str) -> None:
    """Fail as a model's code may."""
    match mishap:
        case "hang":
            while True:
                pass
        case "ignore signals and hang":
            import signal  # noqa: PLC0415 - only needed here

            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            while True:
                pass
        case "abort":
            os.abort()
        case "exit":
            os._exit(3)
        case "eat memory":
            hoard = []
            while True:
                hoard.append(bytearray(2**24))
        case "raise":
            raise RuntimeError("a mistake in the strategy")
