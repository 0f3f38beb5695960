"""No GPU idles while others work."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("activity.gpu_active")
def test_gpu_active(finished, subject, judge):
    """Each GPU did verified work all along, and drew the power for it."""
    judge(subject)


@pytest.mark.criterion("activity.undisturbed")
def test_undisturbed(finished, subject, judge):
    """Nobody else computed on the card, or took its memory, meanwhile."""
    judge(subject)
