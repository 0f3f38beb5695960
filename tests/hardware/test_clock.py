"""GPUs run at the clock that they are sold with."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("clock.ratio")
def test_ratio(finished, subject, judge):
    """The SM clock under load stays near its maximum, or says why not."""
    judge(subject)
