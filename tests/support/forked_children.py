"""Child processes of this package (`rigproof.host.child`), forked from one that has loaded torch.

Loading torch takes most of what a short test of ranks costs. Each child still is a process of its own:
signals stop and kill it, and its end is told as the kernel tells it.

    server (has torch) ── keeper, one for each child, which waits for its end ── child
"""

import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import IO, Any

from rigproof.host import child

PRELOADED = ("torch.distributed", "rigproof.stages.collective.workload", "rigproof.stages.ddp.training")
REQUEST_BYTES = 2**18
PR_SET_PDEATHSIG = 1  # prctl(2)


@contextmanager
def forked_children(server: socket.socket) -> Iterator[list["ForkedPopen"]]:
    """Within this, all children are forks; those that were started so far."""
    started: list[ForkedPopen] = []

    def begin(command: Sequence[str], **options: Any) -> ForkedPopen:
        started.append(ForkedPopen(server, command, **options))
        return started[-1]

    whole = child.subprocess
    names = ("PIPE", "DEVNULL", "TimeoutExpired")
    own = SimpleNamespace(Popen=begin, **{name: getattr(subprocess, name) for name in names})
    child.subprocess = own  # type: ignore[attr-defined]
    try:
        yield started
    finally:
        child.subprocess = whole  # type: ignore[attr-defined]


@contextmanager
def torch_server() -> Iterator[socket.socket]:
    """The server as a process of its own; children are asked for through the socket."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(its.fileno())],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            pass_fds=[its.fileno()],
        )
    with ours:
        yield ours
    process.wait()


class ForkedPopen:
    """What `Child` needs of `subprocess.Popen`."""

    def __init__(
        self,
        server: socket.socket,
        command: Sequence[str],
        *,
        stdin: int,
        stdout: int,
        stderr: int,
        env: Mapping[str, str] | None = None,
    ) -> None:
        assert stdin == stdout == stderr == subprocess.PIPE
        place = command.index(child.BOOT) + 1
        its_stdin, orders = os.pipe()
        answers, its_stdout = os.pipe()
        complaints, its_stderr = os.pipe()
        self._ended, its_end = os.pipe()
        self.stdin: IO[bytes] = os.fdopen(orders, "wb")
        self.stdout: IO[bytes] | None = os.fdopen(answers, "rb")
        self.stderr: IO[bytes] | None = os.fdopen(complaints, "rb")
        told = json.dumps([command[place:], dict(os.environ if env is None else env)]).encode()
        given = its_stdin, its_stdout, its_stderr, its_end
        socket.send_fds(server, [told], given)
        for one in given:
            os.close(one)
        self.pid = int(os.read(self._ended, 8))
        self._status: int | None = None
        self._lock = threading.Lock()  # `Child` waits in two threads

    def poll(self) -> int | None:
        return self._look(0.0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._look(timeout)
        if status is None:
            raise subprocess.TimeoutExpired("a fork", timeout or 0.0)
        return status

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _look(self, timeout_s: float | None) -> int | None:
        if self._status is None and select.select([self._ended], [], [], timeout_s)[0]:
            with self._lock:
                if self._status is None:
                    self._status = int(os.read(self._ended, 8))
        return self._status


def serve(server: socket.socket) -> None:
    """Fork for each request, until nobody can ask any more. Returns in the server only."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers leave no zombies
    gc.freeze()
    while True:
        told, streams, _, _ = socket.recv_fds(server, REQUEST_BYTES, 4)
        if not told:
            return
        if os.fork() == 0:
            server.close()
            _keep(json.loads(told), streams)
        for one in streams:
            os.close(one)


def _keep(told: Any, streams: Sequence[int]) -> None:
    """Fork the child, tell its id, and, once it has ended, how."""
    _die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, ended = streams
    pid = os.fork()
    if pid == 0:
        os.close(ended)
        for number, one in enumerate(streams):
            os.dup2(one, number)
        _become(*told)
    for one in streams:
        os.close(one)
    os.write(ended, b"%-8d" % pid)
    os.write(ended, b"%-8d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    os._exit(0)


def _become(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Be the module, as `rigproof.host.child` starts it."""
    os.environ.clear()
    os.environ.update(environment)
    sys.path += environment.get("PYTHONPATH", "").split(os.pathsep)
    _root, module, *arguments = command
    sys.argv = [module, *arguments]
    sys.stdout = os.fdopen(1, "w", closefd=False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    status = 1
    try:
        runpy.run_module(module, run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0
    finally:
        os._exit(status)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    """The server."""
    _die_with_parent()
    for name in PRELOADED:
        importlib.import_module(name)
    serve(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
