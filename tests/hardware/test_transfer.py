"""What is sent to a card gets there as fast as it can, and without errors."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("transfer.link")
def test_link(finished, subject, judge):
    """Under load each GPU's PCIe link has the generation and width that card and slot allow."""
    judge(subject)


@pytest.mark.criterion("transfer.errors")
def test_errors(finished, subject, judge):
    """The host's kernel counts no lost transactions on the link, and few that it repaired."""
    judge(subject)
