"""The rig is all there, and nobody kept the others waiting."""

import pytest

pytestmark = pytest.mark.hardware


@pytest.mark.criterion("cluster.nodes_present")
def test_nodes_present(rig, subject, judge):
    """Every promised node joined the cluster."""
    judge(subject)


@pytest.mark.criterion("cluster.no_timeouts")
def test_no_timeouts(finished, subject, judge):
    """No wait for a node, an agent or a worker passed its deadline."""
    judge(subject)
