"""What several of these modules judge."""

import pytest

from rigproof.stages.lan.criteria import bandwidth
from support.equal_hosts import HostRun, host_rig
from support.lan_run import LanRun


@pytest.fixture(scope="module")
def simulated():
    return HostRun(host_rig("lan"), bandwidth)


@pytest.fixture
def run(simulated):
    return LanRun(simulated.loaded, bandwidth, simulated.recording)
