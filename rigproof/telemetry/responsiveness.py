"""This host's wake-up delays, measured by a sleeping process.

The sleeper is a process of its own, so that it measures the host and not the interpreter lock of the
process that reads it.
"""

import threading

from rigproof.host.child import Child, Message

MODULE = "rigproof.telemetry.sleeper"


class ResponsivenessProbe(Child):
    """Runs the sleeper from its creation until `stop`, and collects its delays."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._delays_ms: list[float] = []
        super().__init__(MODULE, hear=self._take, isolated=True)

    def drain(self) -> tuple[float, ...] | None:
        """Delays since the last drain, ms. Empty between two batches; None if the sleeper is dead."""
        with self._lock:
            delays_ms, self._delays_ms = tuple(self._delays_ms), []
        return delays_ms if delays_ms or self.alive else None

    def _take(self, batch: Message) -> None:
        with self._lock:
            self._delays_ms.extend(batch["delays_ms"])
