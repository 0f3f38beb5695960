"""The nodes of a rig are joined by a LAN that training libraries use as they should, at its full rate."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("lan.route")
def test_route(route, subject, judge):
    """gloo, NCCL and Ray take the best way between the nodes, and it carries what they send."""
    judge(subject)


@pytest.mark.criterion("lan.bandwidth")
def test_bandwidth(lan, subject, judge):
    """A node and the next one exchange data as fast as the link between them carries, and lose none."""
    judge(subject)
