"""From a completion to its reward: a list of tokens that says how to play 2048 is checked, then played.

A completion is a list of token numbers. The last tokens are the answer; those before are reasoning:

    begin · four moves, the preferred first · how far to look ahead · end

No part of a completion is ever evaluated as code.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

SIDE = 4
CELLS = SIDE * SIDE
FOUR_SHARE = 0.1  # of new tiles; the others are twos, as in the original game
MOVES = ("left", "right", "up", "down")

Board = list[int]  # row by row; 0 is empty

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
LOOK_AHEAD = {"look ahead 1": 1, "look ahead 2": 2}
# The words that each place of a well-formed answer may hold.
ANSWER = (("begin",), *((*MOVES, "jump"),) * len(MOVES), tuple(LOOK_AHEAD), ("end",))


class InvalidStrategyError(ValueError):
    """A completion that is not a valid strategy; the message says why."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """The order of preferred moves, and how many moves it looks ahead."""

    order: tuple[str, ...]
    ahead: int


def parse(completion: Sequence[int]) -> Strategy:
    """The quick check: raises InvalidStrategyError unless it is well-formed and has only existing moves.

    A repeated move counts at its first place; moves that are not named come last.
    """
    answer = completion[-len(ANSWER) :]
    if len(answer) < len(ANSWER):
        raise InvalidStrategyError(f"{len(answer)} tokens are not an answer, which has {len(ANSWER)}")
    words = []
    for token, allowed in zip(answer, ANSWER, strict=True):
        word = WORDS[token] if 0 <= token < len(WORDS) else f"token {token}"
        if word not in allowed:
            raise InvalidStrategyError(f"“{word}” instead of one of {', '.join(allowed)}")
        words.append(word)
    _, *moves, ahead, _ = words
    for move in moves:
        if move not in MOVES:
            raise InvalidStrategyError(f"the game has no move “{move}”")
    return Strategy(tuple(dict.fromkeys((*moves, *MOVES))), LOOK_AHEAD[ahead])


def reward(strategy: Strategy, seed: int) -> float:
    """Play the seed's game to its end, some ten milliseconds of work; returns the mean score per move."""
    game = Game(seed)
    while (move := _chosen(game.board, strategy)) is not None:
        game.make(move)
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


def _lines(move: str) -> tuple[tuple[int, ...], ...]:
    """Indices of the board's four lines, each from the edge that the tiles slide to."""
    rows = [tuple(range(SIDE * row, SIDE * row + SIDE)) for row in range(SIDE)]
    lines = rows if move in ("left", "right") else list(zip(*rows, strict=True))
    return tuple(line if move in ("left", "up") else line[::-1] for line in lines)


_LINES = {move: _lines(move) for move in MOVES}


def slid(board: Board, move: str) -> tuple[Board, int] | None:
    """The board after a move, before the new tile, and the move's score; None if nothing moves."""
    after = [0] * CELLS
    gained = 0
    for line in _LINES[move]:
        place, waiting = 0, 0
        for cell in line:
            tile = board[cell]
            if not tile:
                continue
            if tile == waiting:  # a tile merges once per move
                after[line[place - 1]] = 2 * tile
                gained += 2 * tile
                waiting = 0
            else:
                after[line[place]] = waiting = tile
                place += 1
    return (after, gained) if after != board else None


class Game:
    """One game of 2048, started with two tiles, with the same course for the same seed and moves.

    `score` is the sum of all merged tiles, as in the original.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - a game's course is no secret
        self.board: Board = [0] * CELLS
        self.score = 0
        self.steps = 0
        self._add_tile()
        self._add_tile()

    def make(self, move: str) -> bool:
        """Make a move; False, and no change, if nothing moves that way."""
        result = slid(self.board, move)
        if result is None:
            return False
        self.board, gained = result
        self.score += gained
        self.steps += 1
        self._add_tile()
        return True

    def _add_tile(self) -> None:
        empty = [cell for cell, tile in enumerate(self.board) if not tile]
        cell = empty[int(self._random.random() * len(empty))]
        self.board[cell] = 4 if self._random.random() < FOUR_SHARE else 2
