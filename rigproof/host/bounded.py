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
        """Wait at most `timeout_s` (None: without limit) for the function to end; returns whether it has."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def error(self) -> Exception | None:
        """The exception that ended the function, if one did."""
        return self._error

    def result(self, default: T) -> T:
        """The function's value; `default` while there is none, or if it is None."""
        return next(iter(self.results()), default)

    def results(self) -> list[T]:
        """The function's value in a list, which is empty while there is none, or if it is None."""
        if self._thread.is_alive() or self._error is not None or self._result is None:
            return []
        return [self._result]

    def _run(self) -> None:
        try:
            self._result = self._function()
        except Exception as error:  # whatever it is, the caller reads it from `error`
            self._error = error
