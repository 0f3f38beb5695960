"""Each GPU computes what it should, to the last bit."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("compute.exact")
def test_exact(finished, subject, judge):
    """No result was wrong, and equal GPUs give the same bits for the same products."""
    judge(subject)
