"""The nodes of a rig are joined by a LAN that training libraries use as it should be used."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("lan.route")
def test_route(route, subject, judge):
    """gloo, NCCL and Ray take the best way between the nodes, and it carries what they send."""
    judge(subject)
