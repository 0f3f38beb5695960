"""The end of a process in which a thread is stuck in Ray's C++ side, for ever.

That happens when Ray's own processes no longer answer while it is shut down. At the interpreter's end its
destructors then run beside that thread: usually this works, but Ray may end the process with its own status
(`_Exit(1)`, which would read as REJECTED), or wait for ever.
"""

import atexit
import contextlib
import logging
import os
import signal
import sys
from typing import NoReturn

from rigproof.host.exit_status import keep_status

EXIT_S = 10.0  # for the interpreter to end by itself; then SIGALRM ends it, which needs no lock

_held = False


def held_by_ray() -> bool:
    """Whether a thread of this process is stuck in Ray."""
    return _held


def expect_stuck_exit() -> None:
    """Limit the time that the interpreter's end takes from now on to EXIT_S."""
    global _held  # noqa: PLW0603 - it is the process that is stuck, not an object
    if not _held:
        _held = True
        atexit.register(_limit_exit)


def leave(status: int) -> NoReturn:
    """End the process now, with this status. Call it when everything is written and closed."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with contextlib.suppress(OSError, ValueError):
            if stream is not None:
                stream.flush()
    logging.shutdown()
    keep_status(status)
    os._exit(status)


def _limit_exit() -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, EXIT_S)
