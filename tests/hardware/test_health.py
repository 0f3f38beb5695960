"""The driver has nothing to report."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("health.xid")
def test_xid(finished, subject, judge):
    """No Xid came while the rig was under load."""
    judge(subject)


@pytest.mark.criterion("health.reset")
def test_reset(finished, subject, judge):
    """The host did not restart under load, in this run or unnoticed in one before."""
    judge(subject)
