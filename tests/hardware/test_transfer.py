"""What is sent to a card gets there as fast as it can, and without errors."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("transfer.h2d")
def test_h2d(transfer, subject, judge, keep_rounds):
    """Pinned memory gets to the card as fast as its link can carry it, and unchanged."""
    keep_rounds(subject)
    judge(subject)


@pytest.mark.criterion("transfer.d2h")
def test_d2h(transfer, subject, judge, keep_rounds):
    """The card's memory gets to the host as fast as its link can carry it, and unchanged."""
    keep_rounds(subject)
    judge(subject)


@pytest.mark.criterion("transfer.both")
def test_both(transfer, subject, judge, keep_rounds):
    """Both ways at once the link carries more than one way, and nothing is changed."""
    keep_rounds(subject)
    judge(subject)


@pytest.mark.criterion("transfer.peer")
def test_peer(peer, subject, judge):
    """Every two GPUs of a host copy to each other as fast as what connects them can, and rightly."""
    judge(subject)


@pytest.mark.criterion("transfer.link")
def test_link(finished, subject, judge):
    """Under load each GPU's PCIe link has the generation and width that card and slot allow."""
    judge(subject)


@pytest.mark.criterion("transfer.errors")
def test_errors(finished, subject, judge):
    """The host's kernel counts no lost transactions on the link, and few that it repaired."""
    judge(subject)
