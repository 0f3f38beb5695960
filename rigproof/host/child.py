"""The parent's side of a child process of its own interpreter, for what may hang, crash or exhaust memory.

A child runs one module of this package. Both sides write lines that are JSON objects: orders to its stdin,
messages to its stdout. A child that takes orders ends when its stdin closes, as it does when the parent dies;
a child that is only queried (`ask`) has a deadline. The child's side of this is `rigproof.host.parent`. It
has its parent's environment, folder and session, and ignores SIGINT: Ctrl-C reaches both, and the parent
handles it.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any

from rigproof.host.package import ROOT
from rigproof.records.message_text import one_line

# The package's folder goes to the end of the path: the package is found even if the environment does not
# lead to it, and the child finds the standard library, torch and Ray where this process found them.
BOOT = (
    "import runpy, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); root, module = sys.argv[1:3]; "
    "del sys.argv[1:3]; sys.path.append(root); runpy.run_module(module, run_name='__main__')"
)
STOP_S = 2.0
KILLED_S = 2.0  # for the kernel to end killed processes, and for the last lines to be read
COMPLAINT_BYTES = 4096

Message = dict[str, Any]


class Child:
    """`python -m module arguments…`, from its creation until `stop`.

    `hear` gets every message and `ended` the exit status once there are no more (None if the process has
    closed its stdout and continues); both are called from a thread of this object, possibly before the
    constructor returns. Lines that are no JSON object are ignored: a library's output, or a line cut off by
    the child's death. Without `hear`, stdout is dropped. With `keep_stderr` the end of stderr is kept, else
    nothing. `isolated` leaves out the environment's settings and site-packages: a module that only needs the
    standard library starts faster that way, and stays smaller. `environment`: variables that the child has
    instead of, or beside, its parent's.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        hear: Callable[[Message], None] | None = None,
        ended: Callable[[int | None], None] | None = None,
        keep_stderr: bool = False,
        isolated: bool = False,
        environment: Mapping[str, str] = {},
    ) -> None:
        # -P, which -I implies, prevents the current folder's modules from hiding the library's.
        flags = ("-I", "-S") if isolated else ("-P",)
        self._process = subprocess.Popen(
            [sys.executable, *flags, "-c", BOOT, str(ROOT), module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL if hear is None else subprocess.PIPE,
            stderr=subprocess.PIPE if keep_stderr else subprocess.DEVNULL,
            env={**os.environ, **environment} if environment else None,
        )
        self._complaint = b""
        self._keeper = self._listener = None
        if self._process.stderr is not None:
            self._keeper = self._in_thread(self._keep, self._process.stderr)
        if self._process.stdout is not None:
            self._listener = self._in_thread(self._listen, self._process.stdout, hear, ended)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status as `subprocess` has it; None while the child runs."""
        return self._process.poll()

    @property
    def alive(self) -> bool:
        return self.returncode is None

    def tell(self, **order: Any) -> bool:
        """Send an order; False if the child is gone. Blocks until a large order is read."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return False
        return True

    def let_go(self) -> None:
        """Close the child's stdin, so that it ends by itself, and do not wait for that."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it is gone, and output to it was pending
            self._process.stdin.close()

    def wait(self, timeout_s: float) -> int | None:
        """Wait at most `timeout_s`; returns the exit status, or None if the child still runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout_s)
        return None

    def stop(self, timeout_s: float = STOP_S) -> None:
        """Let the child end, and kill it after `timeout_s`. A second call does nothing.

        SIGTERM is not tried in between: no child treats it differently from the end of its stdin. One
        that the kernel holds even after SIGKILL is left behind.
        """
        self.let_go()
        if self.wait(timeout_s) is None:
            self._process.kill()
            self.wait(KILLED_S)
        if self._listener is not None:
            self._listener.join(KILLED_S)

    def complaint(self) -> str:
        """The end of the child's stderr, if that is kept; complete once the child has ended."""
        if self._keeper is not None and not self.alive:
            self._keeper.join(KILLED_S)
        return self._complaint.decode(errors="replace").strip()

    def last_words(self, before: str = ": ") -> str:
        """The last line of its stderr, behind `before`; empty if that has none, or is not kept.

        Of an error in C++ that nothing caught, what it says: behind it comes where it was raised.
        """
        lines = self.complaint().splitlines() or [""]
        last = next((line.strip() for line in lines if line.lstrip().startswith("what():")), lines[-1])
        return before + one_line(last) if last else ""

    def _in_thread(self, read: Callable[..., None], *arguments: object) -> threading.Thread:
        name = f"rigproof-child-{self.pid}"
        thread = threading.Thread(target=read, args=arguments, name=name, daemon=True)
        thread.start()
        return thread

    def _listen(
        self, stdout: IO[bytes], hear: Callable[[Message], None], ended: Callable[[int | None], None] | None
    ) -> None:
        with stdout:
            for line in stdout:
                if (message := _message(line)) is not None:
                    hear(message)
        if ended is not None:
            ended(self.wait(KILLED_S))

    def _keep(self, stderr: IO[bytes]) -> None:
        with stderr:
            while data := os.read(stderr.fileno(), COMPLAINT_BYTES):
                self._complaint = (self._complaint + data)[-COMPLAINT_BYTES:]


@dataclass(frozen=True, slots=True)
class Answer:
    """A child's answer: its last message (None: it sent none), its exit status, and its stderr's last line.

    The status is None if the child did not end in time.
    """

    message: Message | None
    status: int | None
    complaint: str


def ask(module: str, *arguments: str, limit_s: float) -> Answer:
    """Run a child that prints one message and ends; it is killed if it has not ended within `limit_s`."""
    messages: list[Message] = []
    child = Child(module, *arguments, hear=messages.append, keep_stderr=True)
    try:
        child.let_go()
        status = child.wait(limit_s)
    finally:
        child.stop(0)
    return Answer(messages[-1] if messages else None, status, child.last_words(""))


def _message(line: bytes) -> Message | None:
    if not line.startswith(b"{"):
        return None
    try:
        message: Message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message
