"""Calls that may hang, each in a thread of its own with a deadline."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """Runs `function` in a daemon thread; a call that never returns costs a thread, not the run."""

    def __init__(self, function: Callable[[], T], name: str) -> None:
        self._function = function
        self._result: T | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"rigproof-{name}", daemon=True)
        self._thread.start()

    def done(self, timeout_s: float | None = 0.0) -> bool:
        """Whether the function has ended, after waiting for it at most `timeout_s` (None: until it has)."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def error(self) -> Exception | None:
        """What the function raised; None if it raised nothing so far."""
        return self._error

    def result(self, default: T) -> T:
        """What the function returned; `default` if it failed, has not ended, or returned None."""
        return next(iter(self.results()), default)

    def results(self) -> list[T]:
        """A list of what the function returned; empty if that is None, or if it failed or has not ended."""
        if self._thread.is_alive() or self._error is not None or self._result is None:
            return []
        return [self._result]

    def _run(self) -> None:
        try:
            self._result = self._function()
        except Exception as error:  # whatever it is, the caller reads it from `error`
            self._error = error
