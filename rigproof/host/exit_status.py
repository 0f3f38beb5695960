"""The exit status of this process: nobody ends it with 0 or 1 before it is known, or changes it then."""

import atexit
import contextlib
import os
import posix
import signal
import sys
import threading
from types import FrameType
from typing import NoReturn

UNSAID = 3  # as pytest's for an internal error
INTERRUPTED = 2  # as pytest's
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_end = os._exit  # Python's own
_guarded_process: int | None = None
_kept: int | None = None
_stopped_by: signal.Signals | None = None


def guard_status() -> bool:
    """Keep `os._exit` from making this process green or red before its status is kept.

    A plugin that calls it skips every hook that could say what became of the run. Returns whether the guard
    is new, so that who set it up can end it. Processes that are forked from this one end as they like.
    """
    global _guarded_process, _kept
    if _guarded_process == os.getpid():
        return False
    _guarded_process, _kept = os.getpid(), None
    os._exit = posix._exit = _leave  # noqa: SLF001 - its public name, in another module
    return True


def interrupt_by_signals() -> None:
    """Have these signals raise KeyboardInterrupt, as SIGINT does, and note them, until `end_guard`.

    Not one that is ignored, as under `nohup`, or that is handled already.
    """
    global _stopped_by  # noqa: PLW0603
    _stopped_by = None
    if threading.current_thread() is not threading.main_thread():
        return
    for number in STOPPING:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _interrupt)


def end_interrupts() -> None:
    """Restore what these signals ordinarily do in Python."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in STOPPING:
        if signal.getsignal(number) is _interrupt:
            before = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, before)


def interrupted_early() -> str:
    """The last line of a run that a signal ended before anything was tested."""
    by = signal.SIGINT if _stopped_by is None else _stopped_by
    return f"INCOMPLETE: {by.name} interrupted the run before anything was tested"


def note_signal(number: signal.Signals | None) -> None:
    """Remember the signal that ends the run."""
    global _stopped_by  # noqa: PLW0603
    _stopped_by = number


def noted_signal() -> signal.Signals | None:
    """The signal that ends the run, known even where Python swallowed its KeyboardInterrupt."""
    return _stopped_by


def _interrupt(number: int, _frame: FrameType | None) -> None:
    note_signal(signal.Signals(number))
    raise KeyboardInterrupt(signal.Signals(number).name)


def end_guard() -> None:
    """Let whoever goes on in this process after the run end it with any status."""
    global _guarded_process  # noqa: PLW0603
    _guarded_process = None
    os._exit = posix._exit = _end  # noqa: SLF001
    end_interrupts()


def keep_status(status: int) -> None:
    """Decide the exit status, also where Python is to be inspected after its end (`-i`, PYTHONINSPECT).

    It would end with its own 1 then, which would read as REJECTED, whatever `sys.exit` was told.
    """
    global _kept  # noqa: PLW0603
    _kept = status
    # An interrupt in any code that was given as a text, such as a dataclass's methods, would let Python end
    # by SIGINT, although it was caught; the next such code makes it forget that (run_eval_code_obj).
    exec("")  # noqa: S102
    if sys.flags.inspect:
        atexit.register(_end_now, status)


def status_kept() -> int | None:
    """The exit status, once it is decided; a SystemExit before that is not rigproof's."""
    return _kept


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
