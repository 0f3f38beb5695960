"""When garbage is collected while tests run: not through all that thousands of them hold, each time."""

import gc
from collections.abc import Generator
from functools import cache

import pytest

AFTER = 10_000  # objects more than were freed; Python's default is 700
UNFROZEN = 200_000  # objects that are looked at: more than a file's tests leave, fewer than what was imported


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
    """What was imported is not looked at in a file's tests, also if a test before them has unfrozen it.

    Counting what is looked at takes milliseconds, what is not a tenth of a second, as a collection does.
    """
    if len(gc.get_objects()) > UNFROZEN:
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure() -> None:
    """Look once among everything for what was never closed or awaited; pytest does it ten times."""
    _look_at_everything()


@cache  # each conftest.py that has this hook is asked
def _look_at_everything() -> None:
    gc.unfreeze()
    gc.collect()
    gc.freeze()
