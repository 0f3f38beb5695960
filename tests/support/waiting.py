"""Waiting for what another thread or process does."""

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")
PATIENCE_S = 120.0  # for a step of a test on a busy machine; never what a test is about


def wait_for(
    what: Callable[[], Found], message: str = "it", limit_s: float = PATIENCE_S, step_s: float = 0.02
) -> Found:
    """Wait until `what` is true, and return it. The limit only ends a test that has failed already."""
    end_s = time.monotonic() + limit_s
    while not (found := what()):
        assert time.monotonic() < end_s, f"{message}: not within {limit_s:g} s"
        time.sleep(step_s)
    return found
