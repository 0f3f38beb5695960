"""What these tests start from."""

from support import alone  # noqa: F401 - sets the environment
from support.garbage import own_garbage_of_module, pytest_collection, pytest_unconfigure
from support.reruns import pytest_configure

__all__ = ["own_garbage_of_module", "pytest_collection", "pytest_configure", "pytest_unconfigure"]
