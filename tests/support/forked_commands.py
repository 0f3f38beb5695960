"""Programs that a shell finds on its PATH, each forked from a process that has imported what they need.

Most of a short command's time goes into imports. Each still is a process of its own, with its own modules,
terminal, environment and exit status, and its package is the one of the folder that it was started for.
"""

import contextlib
import gc
import importlib
import json
import os
import runpy
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

# The program: it hands its arguments, its environment and its three streams over, and ends as the fork does.
PROGRAM = """\
#!{python} -IS
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
asked = json.dumps([{module!r}, sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(asked).to_bytes(8, "big")], [0, 1, 2])
server.sendall(asked)
answer = server.recv(1)
sys.exit(answer[0] if answer else 255)
"""


@contextlib.contextmanager
def programs(folder: Path, modules: dict[str, str], package: Path, preload: Sequence[str]) -> Iterator[None]:
    """Put a program for each module into `folder`, by name, until the end.

    Each runs `python -m module` with `package`, which holds rigproof, first on its path.
    """
    address = str(folder / "server")
    for name, module in modules.items():
        program = folder / name
        program.write_text(PROGRAM.format(python=sys.executable, address=address, module=module))
        program.chmod(0o755)
    with subprocess.Popen(
        [sys.executable, __file__, address, *preload],
        cwd=package,
        env=os.environ | {"PYTHONPATH": str(package)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline(), "the server has ended"
        try:
            yield
        finally:
            server.kill()


def _serve(address: str, preload: Sequence[str]) -> None:
    """Fork for each program that connects; returns in the fork, as that program."""
    for name in preload:
        importlib.import_module(name)
    gc.freeze()  # no garbage of any fork
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        os.write(1, b"ready\n")
        while True:
            connection, _ = listening.accept()
            with connection:
                size, streams, _, _ = socket.recv_fds(connection, 8, 3)
                with connection.makefile("rb") as file:
                    module, arguments, cwd, environment = json.loads(file.read(int.from_bytes(size, "big")))
                pid = os.fork()
                if pid == 0:
                    break
                for stream in streams:
                    os.close(stream)
                status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with contextlib.suppress(OSError):
                    connection.sendall(bytes([status if status >= 0 else 128 - status]))
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
        os.close(stream)
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", errors="backslashreplace", buffering=1, closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.path[0] = cwd
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2:])
