"""No card got slower than it was, under the same conditions, in its own earlier runs."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("history.regression")
def test_regression(finished, subject, judge):
    """Each GPU is as fast as in its earlier runs."""
    judge(subject)
