"""Hosts of a network on this machine, with a Ray across them."""

from collections.abc import Iterator

import pytest

from support.network_hosts import Network, why_not
from support.ray_hosts import RayHosts


@pytest.fixture(scope="session", autouse=True)
def namespaces() -> None:
    """Skip where this machine has none for us."""
    if reason := why_not():
        pytest.skip(reason)


@pytest.fixture(scope="module")
def hosts() -> Iterator[RayHosts]:
    """pc1 (head) and pc2, joined by `ray start`; for tests that leave both as they were."""
    with Network("pc1", "pc2") as network:
        cluster = RayHosts.of(network)
        cluster.up()
        yield cluster


@pytest.fixture
def own_hosts() -> Iterator[RayHosts]:
    """pc1 and pc2 of one test alone, which may hurt them; Ray is not started."""
    with Network("pc1", "pc2") as network:
        yield RayHosts.of(network)
