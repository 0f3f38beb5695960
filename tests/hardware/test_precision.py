"""What 16-bit arithmetic gives each GPU in training."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("precision.speedup")
def test_speedup(training, subject, judge):
    """A training step in fp16 is several times as fast as in fp32."""
    judge(subject)
