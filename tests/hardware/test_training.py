"""How fast and how exactly each GPU trains. The test of its speed keeps its rounds in the history."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("training.step")
def test_step(training, subject, judge, keep_rounds):
    """A training step in fp16 is as fast as its profile, its champion and its peers say."""
    keep_rounds(subject)
    judge(subject)


@pytest.mark.criterion("training.replay")
def test_replay(replay, subject, judge):
    """Training steps from the same start give the same bits each time, and on every equal GPU."""
    judge(subject)


@pytest.mark.criterion("training.loss")
def test_loss(replay, subject, judge):
    """Training steps on one batch lower its loss."""
    judge(subject)
