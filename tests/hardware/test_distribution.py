"""The work is where the plan says."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("distribution.workers_spread")
def test_workers_spread(rig, subject, judge):
    """Each GPU has its own planned workers, by UUID."""
    judge(subject)
