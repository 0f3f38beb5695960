import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.stages.feeding.game_2048 import CELLS, MOVES, Game, slid


def board(*rows):
    return [tile for row in rows for tile in row]


CORNER = board((2, 0, 0, 2), (0, 0, 0, 0), (4, 4, 4, 4), (2, 2, 4, 8))


@pytest.mark.parametrize(
    ("move", "after", "gained"),
    [
        ("left", board((4, 0, 0, 0), (0, 0, 0, 0), (8, 8, 0, 0), (4, 4, 8, 0)), 4 + 8 + 8 + 4),
        ("right", board((0, 0, 0, 4), (0, 0, 0, 0), (0, 0, 8, 8), (0, 4, 4, 8)), 4 + 8 + 8 + 4),
        ("up", board((2, 4, 8, 2), (4, 2, 0, 4), (2, 0, 0, 8), (0, 0, 0, 0)), 8),
        ("down", board((0, 0, 0, 0), (2, 0, 0, 2), (4, 4, 0, 4), (2, 2, 8, 8)), 8),
    ],
)
def test_tiles_slide_and_merge_once_from_the_edge_that_they_slide_to(move, after, gained):
    assert slid(CORNER, move) == (after, gained)


def test_a_move_that_moves_nothing_is_none():
    assert slid(board((2, 4, 8, 16), *[(0,) * 4] * 3), "left") is None
    assert slid([0] * CELLS, "up") is None


@given(st.lists(st.sampled_from((0, 0, 2, 4, 8)), min_size=CELLS, max_size=CELLS), st.sampled_from(MOVES))
def test_a_move_keeps_the_sum_of_tiles_and_packs_them(tiles, move):
    before = list(tiles)
    result = slid(tiles, move)
    assert tiles == before
    if result is not None:
        after, gained = result
        assert sum(after) == sum(before)
        assert gained >= 0
        assert sum(map(bool, after)) <= sum(map(bool, before))


@given(st.integers(0, 2**32))
def test_the_same_seed_and_moves_give_the_same_game(seed):
    def played():
        game, choice = Game(seed), random.Random(seed)
        for _ in range(40):
            game.make(choice.choice(MOVES))
        return game.board, game.score, game.steps

    assert played() == played()


def test_each_move_adds_one_tile_and_one_step_and_a_move_in_vain_nothing():
    game = Game(3)
    assert sum(map(bool, game.board)) == 2
    for move in MOVES * 3:
        before, steps = list(game.board), game.steps
        if game.make(move):
            merged, _ = slid(before, move)
            assert sum(map(bool, game.board)) == sum(map(bool, merged)) + 1
            assert game.steps == steps + 1
        else:
            assert (game.board, game.steps) == (before, steps)
