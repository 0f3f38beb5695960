"""A pytest plugin, `-p support.stuck_ray`: the process as it is when a thread of it is stuck in Ray."""

import atexit
import os

from rigproof.cluster.ray import leaving


def pytest_configure() -> None:
    """What Ray does at such an end: its own status in place of the run's."""
    leaving.expect_stuck_exit()
    atexit.register(os._exit, 1)
