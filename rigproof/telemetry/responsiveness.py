"""This host's wake-up delays: how late a sleeper of 10 ms wakes, in a process of its own.

So it measures the host and not the interpreter lock of the process that reads it.
`python -m rigproof.telemetry.responsiveness` is that process: it prints batches of delays (ms), one JSON
object a line, and ends when its stdin is closed, as it is when its parent dies. It only uses the standard
library, so that it starts fast and stays small.
"""

import threading
import time

from rigproof.host.child import Child, Message
from rigproof.host.parent import Orders, tell

MODULE = "rigproof.telemetry.responsiveness"
PERIOD_S = 0.010
BATCH_S = 0.25


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


def main() -> None:
    """Sleep until each point of a 10 ms grid and print how late each wake-up was.

    A wake-up later than further grid points skips those: one stall is one delay.
    """
    orders = Orders()
    due_s = time.monotonic() + PERIOD_S
    delays_ms: list[float] = []
    printed_s = time.monotonic()
    while not orders.closed.is_set():
        time.sleep(max(0.0, due_s - time.monotonic()))
        now_s = time.monotonic()
        delays_ms.append(round((now_s - due_s) * 1000, 3))
        due_s += PERIOD_S * (1 + int((now_s - due_s) / PERIOD_S))
        if now_s - printed_s >= BATCH_S or orders.closed.is_set():
            tell(delays_ms=delays_ms)
            delays_ms, printed_s = [], now_s


if __name__ == "__main__":
    main()
