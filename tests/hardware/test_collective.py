"""The devices of the rig exchange what they compute, correctly and fast enough."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("collective.training")
def test_training(ddp, subject, judge):
    """All devices train one model together: with the same gradients, and faster than one."""
    judge(subject)
