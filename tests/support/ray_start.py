"""`ray start` on loopback, as two PCs would type it, and its end."""

import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from rigproof.host import processes

# Ray puts this host's outer address in the place of 127.0.0.1, which a test has no business on; and it starts
# a dashboard and more that nobody asks here.
ON_LOOPBACK = """
import ray._private.node as node
import ray._private.services as services
from rigproof.cluster.ray.bare_head import BareNode
node.Node = BareNode
services.get_node_ip_address = lambda address=None: "127.0.0.1"
from ray.scripts.scripts import main
main()
"""


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
