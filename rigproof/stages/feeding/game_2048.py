"""The game 2048 in plain Python, with the same course for the same seed and moves."""

import random

SIDE = 4
CELLS = SIDE * SIDE
FOUR_SHARE = 0.1  # of new tiles; the others are twos, as in the original game
MOVES = ("left", "right", "up", "down")

Board = list[int]  # row by row; 0 is empty


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
    """One game, started with two tiles. `score` is the sum of all merged tiles, as in the original."""

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
