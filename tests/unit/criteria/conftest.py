"""A bench with a healthy rig's Recording on it, for every test of a criterion."""

from collections.abc import Callable

import pytest

from support.bench import Bench


@pytest.fixture
def bench() -> Bench:
    """A healthy rig's Recording, to be broken."""
    return Bench()


@pytest.fixture(scope="session")
def new_bench() -> Callable[..., Bench]:
    """Makes benches; its argument replaces top-level keys of the profile."""
    return Bench
