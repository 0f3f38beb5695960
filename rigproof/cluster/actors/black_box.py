"""An agent's black box: what the host was doing, on its own disk, at most a second before it went down.

A thread writes, so that a slow or hung disk delays no reading and no answer.
"""

import contextlib
import errno
import fcntl
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import IO

from rigproof.cluster.actors.state_folder import FILE_OURS_ALONE, PART_SUFFIX, file_name
from rigproof.records.black_box import End, Head, Moment, text_of
from rigproof.records.disk.durable import NEW_FILE
from rigproof.records.limits import MIB

EVERY_S = 1.0
BOX_BYTES = MIB // 4  # an hour of two cards is twice that: the file is then restarted with its last lines
LINES_KEPT = 60


class BlackBox:
    """Writes `line()` each second from `open` to `close`, and on request.

    `error`: why it stopped writing; None while all is well.
    """

    def __init__(self, folder: Path, head: Head, line: Callable[[], Moment]) -> None:
        self._path = folder / file_name(head.run_id, head.node, os.getpid())
        self._head = text_of(head)
        self._line = line
        self._latest: deque[bytes] = deque(maxlen=LINES_KEPT)
        self._orders: queue.SimpleQueue[tuple[bytes | None, threading.Event]] = queue.SimpleQueue()
        self._file: IO[bytes] | None = None
        self._size = 0
        self._ended = False
        self.error: str | None = None
        self._thread = threading.Thread(target=self._write_on, name="rigproof-black-box", daemon=True)

    def open(self) -> None:
        """Create the file with its head and a first line on the disk, and start to write. Raises OSError."""
        self._begin_file(self._path)
        self._append(text_of(self._line()))
        self._thread.start()

    def mark(self, timeout_s: float) -> bool:
        """Write a line now. Returns whether it was on the disk within `timeout_s`."""
        return self._order(None, timeout_s)

    def close(self, how: str, timeout_s: float) -> bool:
        """Write how the run ended, and nothing afterwards. Returns whether that was on the disk in time.

        Safe in a signal handler. A second call does nothing.
        """
        return self._order(text_of(End(how)), timeout_s)

    def _order(self, text: bytes | None, timeout_s: float) -> bool:
        if self._ended or self.error is not None:
            return False
        done = threading.Event()
        self._orders.put((text, done))
        return done.wait(timeout_s) and self.error is None

    def _write_on(self) -> None:
        due_s = time.monotonic() + EVERY_S
        while not self._ended and self.error is None:
            try:
                text, done = self._orders.get(timeout=max(0.0, due_s - time.monotonic()))
            except queue.Empty:
                text, done = None, threading.Event()
            due_s = time.monotonic() + EVERY_S
            try:
                self._append(text_of(self._line()) if text is None else text)
            except (OSError, ValueError) as error:
                self.error = f"{self._path}: {error}"
            self._ended = text is not None
            if self._ended or self.error is not None:
                self._let_go()  # before anyone is informed: the next reader finds a run that ended
            done.set()
        while not self._orders.empty():  # an order that comes too late has no waiting caller
            self._orders.get()[1].set()

    def _let_go(self) -> None:
        """Close the file, which gives up its lock."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()

    def _append(self, text: bytes) -> None:
        """Add a line to the file and sync it to the disk. Raises OSError."""
        assert self._file is not None
        self._latest.append(text)
        if self._size + len(text) > BOX_BYTES:
            self._begin_anew()
            return
        self._write(self._file, text)

    def _begin_anew(self) -> None:
        """Replace the file by a new, locked one that holds the head and the latest lines."""
        part = self._path.with_suffix(PART_SUFFIX)
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
        old = self._file
        self._begin_file(part)
        assert self._file is not None
        self._write(self._file, b"".join(self._latest))
        part.replace(self._path)
        _sync_folder(self._path.parent)
        if old is not None:
            old.close()

    def _begin_file(self, path: Path) -> None:
        """Create a file, lock it, and write the head into it. Raises OSError."""
        file = os.fdopen(os.open(path, NEW_FILE, FILE_OURS_ALONE), "wb", buffering=0)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        self._file, self._size = file, 0
        self._write(file, self._head)
        _sync_folder(path.parent)

    def _write(self, file: IO[bytes], text: bytes) -> None:
        if file.write(text) != len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(file.fileno())
        self._size += len(text)


def _sync_folder(folder: Path) -> None:
    """Sync the folder, so that a new file's name is on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
