"""Hosts of a network on this machine, with a Ray across them."""

import pytest

from support.network_hosts import why_not


@pytest.fixture(scope="session", autouse=True)
def namespaces() -> None:
    """Skip where this machine has none for us."""
    if reason := why_not():
        pytest.skip(reason)
