"""The driver has nothing to report."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("health.xid")
def test_xid(finished, subject, judge):
    """No Xid came while the rig was under load."""
    judge(subject)
