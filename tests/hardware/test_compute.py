"""Each GPU computes what it should, to the last bit."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("compute.exact")
def test_exact(finished, subject, judge):
    """No result was wrong: products are those of exact arithmetic, and the same on equal GPUs."""
    judge(subject)
