"""The exit status of this process: nobody ends it with 0 or 1 before it is known, or changes it then."""

import atexit
import contextlib
import os
import posix
import sys
from typing import NoReturn

UNSAID = 3  # as pytest's for an internal error

_end = os._exit  # Python's own
_guarded_process: int | None = None
_kept: int | None = None


def guard_status() -> bool:
    """From now on `os._exit` does not make this process green or red before its status is kept.

    A plugin that calls it skips every hook that could say what became of the run. Returns whether the guard
    is new, so that who set it up can end it. Processes that are forked from this one end as they like.
    """
    global _guarded_process, _kept
    if _guarded_process == os.getpid():
        return False
    _guarded_process, _kept = os.getpid(), None
    os._exit = posix._exit = _leave  # noqa: SLF001 - its public name, in another module
    return True


def end_guard() -> None:
    """Who goes on in this process after the run ends it as they like."""
    global _guarded_process  # noqa: PLW0603
    _guarded_process = None
    os._exit = posix._exit = _end  # noqa: SLF001


def keep_status(status: int) -> None:
    """End with this status, also where Python is to be inspected after its end (`-i`, PYTHONINSPECT).

    It would end with its own 1 then, which would read as REJECTED, whatever `sys.exit` was told.
    """
    global _kept  # noqa: PLW0603
    _kept = status
    if sys.flags.inspect:
        atexit.register(_end_now, status)


def status_kept() -> bool:
    """Whether it is known how this process ends: what raises SystemExit before that is none of ours."""
    return _kept is not None


def _leave(status: int) -> NoReturn:
    if _guarded_process == os.getpid():
        if _kept is not None:
            status = _kept
        elif status in (0, 1):
            who = f"os._exit({status}) of a module, a plugin or a conftest.py"
            sentence = f"\nrigproof: {who} ended this process; no verdict\n"
            with contextlib.suppress(OSError):
                os.write(2, sentence.encode())
            status = UNSAID
    _end(status)


def _end_now(status: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    _end(status)
