"""The CPU load of a host in a process of its own: `python -m rigproof.cluster.host_load THREADS PERCENT`.

It has its own interpreter lock, so that sampling does not feel it. It prints one line of JSON a second and
ends when its stdin is closed, which the death of its parent does too.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from rigproof.cluster.messages import HostLoad
from rigproof.telemetry.host import HostReader
from rigproof.workloads.cpu_load import CpuLoad

MODULE = "rigproof.cluster.host_load"
BOOT = f"import sys, runpy; sys.path.append(sys.argv[3]); runpy.run_module({MODULE!r}, run_name='__main__')"
REPORT_S = 1.0


class HostLoadProcess:
    """Runs the load from its making until `stop`; `shares` holds what each thread used of a CPU."""

    def __init__(self, load: HostLoad) -> None:
        self.load = load
        self.shares: list[float] = []
        self.error: str | None = None
        root = str(Path(__file__).resolve().parents[2])
        arguments = [str(load.threads), str(load.target_percent), root]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", BOOT, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._thread = threading.Thread(target=self._collect, name="rigproof-host-load", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """The load's process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the load runs."""
        return self._process.poll() is None

    def stop(self, timeout_s: float = 2.0) -> None:
        """End the load; kill it where it does not end within `timeout_s`."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout_s)
        self._thread.join(timeout_s)
        if self._process.stdout is not None and not self._thread.is_alive():
            self._process.stdout.close()

    def report(self) -> dict[str, Any]:
        """What it did, as an event's data. `share` is the mean, None before the first second."""
        share = sum(self.shares) / len(self.shares) if self.shares else None
        return {
            "threads": self.load.threads,
            "target_percent": self.load.target_percent,
            "share": share,
            "error": self.error,
        }

    def _collect(self) -> None:
        for line in self._process.stdout or ():
            try:
                report = json.loads(line)
            except ValueError:
                continue  # cut off by the load's death
            self.shares.append(report["share"])
            self.error = report["error"] or self.error


def main(threads: int, target_percent: float) -> None:
    """Hold the load until stdin is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is its parent's to handle
    closed = threading.Event()
    threading.Thread(target=_wait_for_end, args=(closed,), daemon=True).start()
    load = CpuLoad(threads, target_percent, HostReader().cpu_times)
    load.start()
    try:
        while not closed.wait(REPORT_S):
            sys.stdout.write(json.dumps({"share": load.share, "error": load.error}) + "\n")
            sys.stdout.flush()
    except BrokenPipeError:
        os._exit(1)  # nobody is left to tell
    finally:
        load.stop()


def _wait_for_end(closed: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    closed.set()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
