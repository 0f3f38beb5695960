"""When garbage is collected while tests run: not through all that thousands of them hold, each time."""

import gc
from collections.abc import Generator

import pytest

AFTER = 10_000  # objects more than were freed; Python's default is 700


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays: to look for garbage among it takes a fifth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        return (yield)
    finally:
        gc.set_threshold(AFTER)
        if enabled:
            gc.enable()


@pytest.fixture(autouse=True, scope="module")
def own_garbage_of_module() -> None:
    """What is there before a file's tests is not looked at, unless a test before them has unfrozen it."""
    if not gc.get_freeze_count():
        gc.freeze()  # without a collection first: the stages' tests unfreeze, and each would take 0.2 s


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure() -> None:
    """Look once among everything for what was never closed or awaited; pytest does it ten times."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
