import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.stages.feeding.strategies import (
    ANSWER,
    CELLS,
    MOVES,
    WORDS,
    Game,
    InvalidStrategyError,
    Strategy,
    parse,
    reward,
    slid,
)
from support.mishaps import completion_of

GOOD = ("begin", "left", "down", "right", "up", "look ahead 1", "end")


def test_an_answer_is_a_strategy_whatever_was_thought_before():
    expected = Strategy(("left", "down", "right", "up"), 1)
    assert parse(completion_of(*GOOD)) == expected
    assert parse(completion_of("because", "end", "corner", *GOOD)) == expected


def test_moves_named_twice_or_never_still_make_an_order():
    completion = completion_of("begin", "up", "up", "left", "up", "look ahead 2", "end")
    assert parse(completion) == Strategy(("up", "left", "right", "down"), 2)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (GOOD[1:], "6 tokens are not an answer"),
        ((*GOOD, "wait"), "“left” instead of one of begin"),
        (
            ("begin", "left", "down", "right", "merge", "look ahead 1", "end"),
            "“merge” instead of one of left",
        ),
        (("begin", "left", "jump", "right", "up", "look ahead 1", "end"), "no move “jump”"),
        (("begin", "left", "down", "right", "up", "up", "end"), "“up” instead of one of look ahead 1"),
    ],
)
def test_what_is_no_strategy_is_refused_with_the_reason(words, reason):
    with pytest.raises(InvalidStrategyError, match=reason):
        parse(completion_of(*words))


@given(st.lists(st.integers(-3, len(WORDS) + 3), max_size=len(ANSWER) + 2))
def test_any_tokens_either_parse_or_are_invalid(tokens):
    try:
        strategy = parse(tokens)
    except InvalidStrategyError:
        return
    assert sorted(strategy.order) == sorted(MOVES)
    assert strategy.ahead in (1, 2)


def test_the_reward_depends_on_strategy_and_seed_alone():
    left = Strategy(("left", "down", "right", "up"), 1)
    up = Strategy(("up", "right", "down", "left"), 1)
    assert reward(left, 1) == reward(left, 1)
    assert len({reward(left, 1), reward(left, 2), reward(up, 1)}) == 3
    assert reward(left, 1) > 4  # a game that only merged twos


# The game


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
