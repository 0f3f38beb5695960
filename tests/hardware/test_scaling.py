"""What each GPU gives when several processes share it."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("scaling.sharing")
def test_sharing(sharing, subject, judge):
    """Several processes together lose little against one alone."""
    judge(subject)
