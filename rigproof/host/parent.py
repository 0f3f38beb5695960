"""The child's side of `rigproof.host.child`: its parent's orders, its parent's end, and its answers.

Standard library only: a child may be isolated, and should start fast.
"""

import ctypes
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

GRACE_S = 5.0
ERROR_CHARACTERS = 2000
PR_SET_PDEATHSIG = 1  # prctl(2)


class Orders:
    """Orders from stdin, one after the other; `closed` once the parent sends no more, or is dead.

    A process that has not ended `grace_s` later is ended with status 1, whatever it does. None: no limit.
    """

    def __init__(self, grace_s: float | None = GRACE_S) -> None:
        self.closed = threading.Event()
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(grace_s,), name="rigproof-orders", daemon=True).start()

    def next(self) -> dict[str, Any] | None:
        """The next order, once it comes; None after the last one. ValueError if it is no JSON."""
        line = self._lines.get()
        if line is None:
            self._lines.put(None)  # for later calls
            return None
        order: dict[str, Any] = json.loads(line)
        return order

    def _read(self, grace_s: float | None) -> None:
        """Split stdin into lines. Read past Python's buffer, whose lock a fork would copy."""
        rest = b""  # the last one may be an order cut off by the parent's death
        while data := os.read(0, 2**16):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._lines.put(line)
        self.closed.set()
        self._lines.put(None)
        if grace_s is not None:
            time.sleep(grace_s)
            os._exit(1)


def tell(**message: Any) -> None:
    """Write a line to the parent. Ends the process silently if no reader is left."""
    try:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(0)


def serve(work: Callable[[Orders], None]) -> int:
    """Do `work` for the parent: it hears `done` at the end, or `error` (message). Returns the exit status.

    Afterwards the process waits for its stdin to close, so that the parent hears all of it.
    """
    die_with_parent()
    orders = Orders()
    try:
        work(orders)
    except Exception as error:  # the parent hears of every error
        tell(what="error", message=f"{type(error).__name__}: {error}".removesuffix(": ")[:ERROR_CHARACTERS])
        return 1
    tell(what="done")
    orders.closed.wait()
    return 0


def die_with_parent(pid: int | None = None) -> None:
    """Have the kernel kill this process when its parent dies, even if this one hangs in a driver.

    More exactly: when the *thread* that started it ends (PR_SET_PDEATHSIG), so that a parent's short-lived
    threads cannot start such a process. `pid` is the parent's, if this process knows it: it detects a parent
    that died before the kernel was asked.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if pid is not None and os.getppid() != pid:
        os._exit(1)
