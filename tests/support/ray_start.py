"""`ray start` on loopback, as two PCs would type it, and its end."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from rigproof.host import processes

ROOT = Path(__file__).resolve().parents[2]
# `ray`, without the dashboard, the agents and more that it starts on each host and that nobody asks here.
BARE = """
import ray._private.node as node
import ray._private.services as services
from rigproof.cluster.ray.bare_head import BareNode
node.Node = BareNode
{more}
from ray.scripts.scripts import main
main()
"""
BARE_RAY = BARE.format(more="")
# Ray puts this host's outer address in the place of 127.0.0.1, which a test has no business on.
ON_LOOPBACK = BARE.format(more='services.get_node_ip_address = lambda address=None: "127.0.0.1"')


@dataclass
class Nodes:
    """A cluster on loopback, what is set where its nodes were started, and their `ray start --block`."""

    address: str
    environment: dict[str, str]
    processes: list[subprocess.Popen[bytes]]

    @property
    def client_environment(self) -> dict[str, str]:
        """The environment of a client that stays on loopback."""
        return {**self.environment, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


@contextmanager
def ray_nodes(variables: Mapping[str, str], prefix: str, *names: str) -> Iterator[Nodes]:
    """A cluster of these nodes, the first its head, at a port of its choice.

    `variables` are added to this process's, without what those say of Ray's token. `prefix`: of its folder.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))  # short enough for Ray's sockets
    own = {"RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(ROOT)} | dict(variables)
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("RAY_AUTH")}
    nodes = Nodes("", own, [])
    role = ("--head", "--port=0", "--include-dashboard=false", f"--temp-dir={folder}")
    try:
        for name in names:
            command = [
                *(sys.executable, "-c", ON_LOOPBACK, "start", "--block", f"--node-name={name}", *role),
                *("--node-ip-address=127.0.0.1", "--num-cpus=2", "--num-gpus=0"),
                *("--object-store-memory=78643200", "--disable-usage-stats"),
            ]
            with (folder / "start.log").open("ab") as log:
                nodes.processes.append(
                    subprocess.Popen(
                        command,
                        env=inherited | own,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )
            nodes.address = nodes.address or address_of(nodes.processes[0], folder)
            role = (f"--address={nodes.address}",)
        yield nodes
    finally:
        end_all(nodes.processes, folder)


def address_of(head: subprocess.Popen[bytes], folder: Path) -> str:
    """Where the head listens, once it does: Ray writes it into its folder then."""
    address_file = folder / "ray_current_cluster"
    end_s = time.monotonic() + 180
    while time.monotonic() < end_s and head.poll() is None:
        if address_file.exists() and address_file.read_text():
            return address_file.read_text().strip()
        time.sleep(0.1)
    pytest.fail(f"the head did not come up: {(folder / 'start.log').read_text()[-2000:]}")


def end_all(started: Sequence[subprocess.Popen[bytes]], folder: Path) -> None:
    """End these `ray start --block`, the last one first, with what they started, and remove the folder."""
    ours = processes.descendants({process.pid for process in started})
    for process in reversed(started):
        process.send_signal(signal.SIGTERM)
    for process in started:
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)
    for left in processes.wait_gone(ours, 5):
        processes.kill(left)
    processes.wait_gone(ours, 30)
    shutil.rmtree(folder, ignore_errors=True)
