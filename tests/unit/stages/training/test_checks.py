import math

import pytest

from rigproof.devices.transformer.shape import Shape
from rigproof.devices.transformer.step import Steps
from rigproof.stages.training.checks import MOST_OVERFLOWS, Judge, tolerance

SHAPE = Shape(64, 2, 256, 64)
FIRST = SHAPE.first_loss
FALLING = [FIRST, FIRST - 0.1, FIRST - 0.2, FIRST - 0.3]


def steps(*losses, norms=None):
    return Steps(0.1, losses, tuple(norms or [1.0] * len(losses)))


def test_losses_like_those_of_fp32_are_verified():
    judge = Judge(SHAPE, "fp16", FALLING)
    assert judge.take(steps(*[loss * 1.001 for loss in FALLING])) == (True, "")
    assert judge.warm
    assert judge.difference == pytest.approx(0.001)
    assert judge.take(steps(1.0, 0.5)) == (True, "")
    assert (judge.first, judge.last) == (pytest.approx(FIRST * 1.001), 0.5)


def test_losses_that_equal_those_of_fp32_are_not_apart():
    judge = Judge(SHAPE, "fp16", FALLING)
    assert judge.difference == 0.0
    assert judge.take(steps(*FALLING)) == (True, "")
    assert judge.difference == 0.0


@pytest.mark.parametrize(("precision", "apart"), [("tf32", 0.0021), ("fp16", 0.0021), ("bf16", 0.017)])
def test_a_loss_that_differs_from_fp32_spoils_all_of_the_run(precision, apart):
    assert tolerance(precision) < apart < 1.1 * tolerance(precision)
    judge = Judge(SHAPE, precision, FALLING)
    verified, wrong = judge.take(steps(FALLING[0], FALLING[1] * (1 + apart)))
    assert not verified
    assert wrong.startswith(
        f"loss 2 is {FALLING[1] * (1 + apart):.5f} in {precision} and {FALLING[1]:.5f} in fp32"
    )
    assert judge.take(steps(*FALLING[2:])) == (False, "")
    assert judge.take(steps(1.0)) == (False, "")


def test_a_run_whose_reference_was_wrong_is_never_verified():
    judge = Judge(SHAPE, "fp16", FALLING, sound=False)
    assert judge.take(steps(*FALLING)) == (False, "")


@pytest.mark.parametrize("factor", [0.97, 1.03])
def test_an_untrained_model_that_does_not_lose_what_it_must_is_wrong(factor):
    judge = Judge(SHAPE, "fp32")
    verified, wrong = judge.take(steps(FIRST * factor))
    assert (verified, judge.sound) == (False, False)
    assert wrong == f"the untrained model's loss is {FIRST * factor:.4f} in fp32, not {FIRST:.4f}"


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_wrong(bad):
    judge = Judge(SHAPE, "fp32")
    judge.take(steps(*FALLING))
    assert judge.take(steps(1.0, bad)) == (False, f"the loss is {bad} in fp32")


def test_a_gradient_that_is_no_number_is_wrong_without_a_scaler():
    for precision in ("fp32", "tf32", "bf16"):
        judge = Judge(SHAPE, precision)
        verified, wrong = judge.take(steps(FIRST, norms=[math.inf]))
        assert (verified, wrong) == (False, f"a gradient is inf in {precision}")


def test_an_overflow_of_fp16_is_counted_and_its_round_is_not():
    """The weights stay as they were, so the next loss is the same one again."""
    judge = Judge(SHAPE, "fp16", FALLING)
    assert judge.take(steps(FIRST, norms=[math.inf])) == (False, "")
    assert judge.take(steps(FIRST, norms=[math.nan])) == (False, "")
    assert judge.take(steps(*FALLING)) == (True, "")
    assert judge.overflows == 2
    assert judge.losses == FALLING


def test_gradients_that_never_fit_are_wrong_in_the_end():
    judge = Judge(SHAPE, "fp16", FALLING)
    found = [judge.take(steps(FIRST, norms=[math.inf]))[1] for _ in range(MOST_OVERFLOWS + 2)]
    assert [text for text in found if text] == [f"{MOST_OVERFLOWS} steps without a finite gradient in fp16"]
    assert not judge.sound


def test_warm_up_ends_although_nothing_comes_out():
    judge = Judge(SHAPE, "fp32")
    for _ in range(40):
        judge.take(steps(math.nan, norms=[math.nan]))
    assert judge.warm


def test_a_loss_that_does_not_fall_is_wrong():
    judge = Judge(SHAPE, "fp32")
    judge.take(steps(*FALLING))
    verified, wrong = judge.take(steps(FIRST - 1, FIRST))
    assert (verified, wrong) == (False, f"the loss has not fallen in fp32: {FIRST:.4f} after {FIRST:.4f}")
    assert judge.take(steps(FIRST - 1)) == (True, "")
