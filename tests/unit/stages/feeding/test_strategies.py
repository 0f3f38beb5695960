import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.stages.feeding.game_2048 import MOVES
from rigproof.stages.feeding.strategies import (
    ANSWER,
    MISHAPS,
    TOKENS,
    WORDS,
    InvalidStrategyError,
    Strategy,
    completion_of,
    parse,
    reward,
)

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


@given(st.lists(st.integers(-3, len(TOKENS) + 3), max_size=len(ANSWER) + 2))
def test_any_tokens_either_parse_or_are_invalid(tokens):
    try:
        strategy = parse(tokens)
    except InvalidStrategyError:
        return
    assert sorted(strategy.order) == sorted(MOVES)
    assert strategy.ahead in (1, 2)


def test_an_unknown_word_has_no_token():
    with pytest.raises(ValueError, match="no token is called hop"):
        completion_of("begin", "hop")


def test_what_goes_wrong_is_no_word_that_a_model_writes():
    assert not set(MISHAPS) & set(WORDS)
    assert parse(completion_of(*GOOD[:5], "hang", "end")).mishap == "hang"
    assert parse(completion_of(*GOOD)).mishap is None


def test_the_reward_depends_on_strategy_and_seed_alone():
    left = Strategy(("left", "down", "right", "up"), 1)
    up = Strategy(("up", "right", "down", "left"), 1)
    assert reward(left, 1) == reward(left, 1)
    assert len({reward(left, 1), reward(left, 2), reward(up, 1)}) == 3
    assert reward(left, 1) > 4  # a game that only merged twos


def test_a_mistake_in_a_strategy_is_its_own_exception():
    with pytest.raises(RuntimeError, match="a mistake"):
        reward(Strategy(MOVES, 1, "raise"), 1)
