"""Signals that end a run cleanly."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def signals_interrupt(note: Callable[[int], None]) -> Iterator[None]:
    """While the rig is up, SIGINT, SIGTERM and SIGHUP end the run the same way: cleanly."""

    def stop(number: int, _frame: FrameType | None) -> None:
        note(number)
        raise KeyboardInterrupt(signal.Signals(number).name)

    previous = {
        number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
