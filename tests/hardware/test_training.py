"""How fast each GPU trains. The test keeps its rounds in the history."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("training.step")
def test_step(training, subject, judge, keep_rounds):
    """A training step in fp16 is as fast as its profile, its champion and its peers say."""
    keep_rounds(subject)
    judge(subject)
