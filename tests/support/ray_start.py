"""`ray start` on loopback, as two PCs would type it, and its end."""

import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

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
