"""One of the processes that share a device, as the worker that started it sees it."""

import contextlib
import json
import queue
import subprocess
import sys
import threading
import time
from typing import Any

from rigproof.host.package import ROOT

MODULE = "rigproof.stages.sharing.child"
# The folder comes last, so that the child finds the standard library and torch where this process did.
BOOT = f"import sys, runpy; sys.path.append(sys.argv[1]); runpy.run_module({MODULE!r}, run_name='__main__')"
KILL_S = 5.0

Inbox = queue.SimpleQueue[tuple["SharingProcess", dict[str, Any]]]


class SharingProcess:
    """A child with its own interpreter, from its making until `end`. What it says goes to `inbox`.

    Its end is said too: `{"what": "gone", "status": …}`, where the status is subprocess's.
    """

    def __init__(self, number: int, settings: dict[str, Any], inbox: Inbox) -> None:
        self.number = number
        self.state = "starting"
        self.heard_s = time.monotonic()
        self.mib = 0.0
        self._inbox = inbox
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", BOOT, str(ROOT), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        name = f"rigproof-sharing-{number}"
        self._thread = threading.Thread(target=self._collect, name=name, daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def tell(self, **order: float) -> None:
        """Give it its next order. Where it is gone, the inbox says so."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()

    def let_go(self) -> None:
        """Close its stdin, at which it ends by itself. Does not wait."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it is gone, and something was to be written to it
            self._process.stdin.close()

    def end(self, timeout_s: float) -> None:
        """Wait for its end; kill it after `timeout_s`. One that the kernel holds even then is left."""
        self.let_go()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._thread.join(KILL_S)
        if self._process.stdout is not None and not self._thread.is_alive():
            self._process.stdout.close()

    def _collect(self) -> None:
        for line in self._process.stdout or ():
            try:
                message = json.loads(line)
                known = isinstance(message, dict) and "what" in message
            except ValueError:
                known = False  # cut off by its death, or some library's word
            if known:
                self._inbox.put((self, message))
        self._inbox.put((self, {"what": "gone", "status": self._process.wait()}))
