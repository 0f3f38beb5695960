"""A thread that reads on a fixed grid, and reports how late it was and what it missed."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rigproof.records.measurements import Event
from rigproof.records.recording import Record, Sample
from rigproof.telemetry.nvml.errors import GpuLost, NvmlError

Reader = Callable[[float, float], Sequence[Sample | Record]]


@dataclass(slots=True)
class Grid:
    """Points in time at `start_s + k / rate_hz`, k = 0, 1, 2, …; `next` is the next k that is due."""

    start_s: float
    rate_hz: float
    next: int = 0

    @property
    def due_s(self) -> float:
        """When the next point is due."""
        return self.start_s + self.next / self.rate_hz

    def skip_passed(self, now_s: float) -> int:
        """Go to the last point that is not after `now_s`; the number of points skipped.

        If late by less than a period, no point is skipped.
        """
        latest = int((now_s - self.start_s) * self.rate_hz)
        # Rounding can make the division off by one point.
        while self.start_s + latest / self.rate_hz > now_s:
            latest -= 1
        while self.start_s + (latest + 1) / self.rate_hz <= now_s:
            latest += 1
        passed = max(0, latest - self.next)
        self.next += passed
        return passed


class Sampler:
    """Calls `read(t_s, lateness_s)` at each point of the grid, in a thread of its own, and keeps its results.

    `read` never overlaps itself. When it raises, that becomes an Event "nvml_error" (each distinct
    error once; `failures` counts all) and sampling continues. When it hangs, `drain` and `stop` still
    return immediately, or after `stop`'s limit, with what is there. The grid begins `offset_s` after `start`.
    """

    def __init__(
        self,
        rate_hz: float,
        read: Reader,
        now_s: Callable[[], float],
        sleep: Callable[[float], object] = time.sleep,
        subject: str = "rig",
        *,
        offset_s: float = 0.0,
    ) -> None:
        self.missed = 0  # grid points without a reading
        self.failures = 0
        self._rate_hz = rate_hz
        self._read = read
        self._now_s = now_s
        self._sleep = sleep
        self._subject = subject
        self._offset_s = offset_s
        self._lock = threading.Lock()
        self._kept: list[Sample | Record] = []
        self._reported: set[tuple[str, str]] = set()
        self._reading_since: float | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self.run, name="rigproof-sampler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def drain(self) -> list[Sample | Record]:
        """Take the readings since the last drain, in order."""
        with self._lock:
            kept, self._kept = self._kept, []
        return kept

    def ask_to_stop(self) -> None:
        """Let the grid end after the current reading, without waiting."""
        self._stopping.set()

    def stop(self, timeout_s: float) -> bool:
        """End the thread; False if a reading still hangs after `timeout_s`."""
        self.ask_to_stop()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def stuck_for_s(self, now_s: float) -> float:
        """How long the current reading has taken; 0 between readings."""
        since = self._reading_since
        return 0.0 if since is None else max(0.0, now_s - since)

    def run(self) -> None:
        """Read at each point of the grid until stopped; `start` runs this in the thread."""
        grid = Grid(self._now_s() + self._offset_s, self._rate_hz)
        while not self._stopping.is_set():
            wait_s = grid.due_s - self._now_s()
            if wait_s > 0:
                self._sleep(wait_s)
                continue  # a sleep can end early
            t_s = self._now_s()
            self.missed += grid.skip_passed(t_s)
            self._read_once(t_s, t_s - grid.due_s)
            grid.next += 1

    def _read_once(self, t_s: float, lateness_s: float) -> None:
        self._reading_since = t_s
        try:
            found = list(self._read(t_s, lateness_s))
        except Exception as error:  # no failure of a driver may end the sampling
            found = self._failed(t_s, error)
        finally:
            self._reading_since = None
        with self._lock:
            self._kept.extend(found)

    def _failed(self, t_s: float, error: Exception) -> list[Sample | Record]:
        self.failures += 1
        subject = error.subject if isinstance(error, GpuLost) else self._subject
        message = f"{type(error).__name__}: {error}"
        if (subject, message) in self._reported:
            return []
        self._reported.add((subject, message))
        data = {"query": "sample", "code": error.code if isinstance(error, NvmlError) else None}
        return [Event(t_s, "nvml_error", subject, message, data=data)]
