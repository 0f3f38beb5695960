"""How late a 10 ms sleeper wakes: `python -m rigproof.telemetry.responsiveness`, and who reads it.

The sleeper is a process of its own, so that it feels the host and not the interpreter lock of the
process that it serves. It is made of the standard library alone: it starts fast and stays small.
It prints batches of delays (ms), one JSON array a line, and ends when its stdin is closed, which the
death of its parent does too.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

PERIOD_S = 0.010
BATCH_S = 0.25


def sleeper() -> None:
    """Sleep towards a grid of 10 ms and print how late each waking was.

    A waking that comes after further grid points passes them over: one stall is one delay.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is its parent's to handle
    closed = threading.Event()
    threading.Thread(target=_wait_for_end, args=(closed,), daemon=True).start()
    due_s = time.monotonic() + PERIOD_S
    delays_ms: list[float] = []
    printed_s = time.monotonic()
    while not closed.is_set():
        time.sleep(max(0.0, due_s - time.monotonic()))
        now_s = time.monotonic()
        delays_ms.append(round((now_s - due_s) * 1000, 3))
        due_s += PERIOD_S * (1 + int((now_s - due_s) / PERIOD_S))
        if now_s - printed_s >= BATCH_S or closed.is_set():
            try:
                os.write(1, json.dumps(delays_ms).encode() + b"\n")
            except BrokenPipeError:
                return  # nobody reads any more
            delays_ms, printed_s = [], now_s


def _wait_for_end(closed: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    closed.set()


class ResponsivenessProbe:
    """Runs the sleeper from its making until `stop`, and collects its delays in a thread."""

    def __init__(self) -> None:
        # By file, isolated and without site-packages: the standard library is all it needs.
        command = [sys.executable, "-I", "-S", str(Path(__file__).resolve())]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._lock = threading.Lock()
        self._delays_ms: list[float] = []
        self._thread = threading.Thread(target=self._collect, name="rigproof-responsiveness", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the sleeper runs."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """The sleeper's process id."""
        return self._process.pid

    def drain(self) -> tuple[float, ...] | None:
        """Delays since the last drain, ms; empty between batches, None from a dead sleeper: not measured."""
        with self._lock:
            delays_ms, self._delays_ms = tuple(self._delays_ms), []
        return delays_ms if delays_ms or self.alive else None

    def stop(self, timeout_s: float = 2.0) -> None:
        """End the sleeper; kill it where it does not end within `timeout_s`."""
        stdin = self._process.stdin
        if stdin is not None and not stdin.closed:
            stdin.close()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout_s)
        self._thread.join(timeout_s)
        if self._process.stdout is not None and not self._thread.is_alive():
            self._process.stdout.close()

    def _collect(self) -> None:
        lines = self._process.stdout
        for line in lines or ():
            try:
                batch = json.loads(line)
            except ValueError:
                continue  # cut off by the sleeper's death
            with self._lock:
                self._delays_ms.extend(batch)


if __name__ == "__main__":
    sleeper()
