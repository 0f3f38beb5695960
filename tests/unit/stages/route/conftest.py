"""Two and three hosts whose ways were recorded, for several of these modules."""

import pytest

from rigproof.stages.route.criteria import route
from support.equal_hosts import HostRun, host_rig


@pytest.fixture(scope="module")
def simulated():
    """Two hosts, and three."""
    return {number: HostRun(host_rig("route", number), route) for number in (2, 3)}


@pytest.fixture
def pair(simulated):
    return HostRun(simulated[2].loaded, route, simulated[2].recording)


@pytest.fixture
def three(simulated):
    return HostRun(simulated[3].loaded, route, simulated[3].recording)
