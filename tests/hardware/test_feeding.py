"""The CPUs keep each GPU fed while they compute the rewards of what it generates."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("feeding.parallel_rewards")
def test_parallel_rewards(feeding, subject, judge):
    """A pool of processes computes the same rewards, in the same order, so much faster."""
    judge(subject)


@pytest.mark.criterion("feeding.idle_gaps")
def test_idle_gaps(feeding, subject, judge):
    """The GPU generates nearly all the time: it seldom waits for rewards."""
    judge(subject)
