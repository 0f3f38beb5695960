"""How hypothesis runs here, and a healthy rig's recording, to be broken."""

from collections.abc import Callable

import pytest
from hypothesis import Phase, settings

from support import alone  # noqa: F401 - sets the environment
from support.bench import Bench
from support.bytecode import pytest_sessionstart
from support.garbage import own_garbage_of_module, pytest_collection, pytest_unconfigure
from support.reruns import pytest_configure

__all__ = [
    "own_garbage_of_module",
    "pytest_collection",
    "pytest_configure",
    "pytest_sessionstart",
    "pytest_unconfigure",
]

settings.register_profile("any-host", deadline=None)  # a busy host must not decide about a test
# For bench/mutants.py: that a test fails is enough; the smallest example that does takes minutes to find.
settings.register_profile(
    "first-failure", deadline=None, database=None, phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("any-host")


@pytest.fixture
def bench() -> Bench:
    """A healthy rig's Recording, to be broken."""
    return Bench()


@pytest.fixture(scope="session")
def new_bench() -> Callable[..., Bench]:
    """Makes benches; its argument replaces top-level keys of the profile."""
    return Bench
