"""`rigproof monitor` on a cluster that was there before it: every node shown, none loaded, nothing left."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from rigproof.host import processes

# A shell may have started the tests with SIGINT ignored.
MAIN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from rigproof.cli.main import main
main()
"""
PROFILE = """
name = "three"
[[nodes]]
name = "pc1"
[[nodes.gpus]]
sku = "unknown"
device = "cpu"
[[nodes]]
name = "pc2"
[[nodes.gpus]]
sku = "rtx-3070"
[[nodes]]
name = "pc3"
"""


def agents(cluster: Any) -> list[str]:
    """Command lines of the node agents that Ray runs in this cluster."""
    family = processes.descendants({process.pid for process in cluster.processes})
    lines = []
    for process in family:
        try:
            lines.append(Path(f"/proc/{process.pid}/cmdline").read_text())
        except OSError:
            continue
    return [line for line in lines if "NodeAgent" in line]


def test_nodes_are_shown_next_to_their_limits_and_the_cluster_is_left_as_it_was(
    two_nodes: Any, two_node_rig: Any, tmp_path: Path
) -> None:
    profile = tmp_path / "three.toml"
    profile.write_text(PROFILE)
    options = [f"--hwprofile={profile}", f"--ray-address={two_nodes.address}", "--json", "--interval=0.3"]
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, "monitor", *options],
        cwd=tmp_path,
        env={**os.environ, **two_nodes.client_environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None

        def frame() -> dict[str, Any] | None:
            """The next frame in which both nodes have been read."""
            found = json.loads(process.stdout.readline())
            here = {node["name"] for node in found["nodes"] if node["presence"] == "here"}
            return found if here == {"pc1", "pc2"} else None

        found = two_node_rig.wait_for(frame, "both nodes")
        assert len(agents(two_nodes)) == 2
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=240)
    finally:
        process.kill()
    assert (process.returncode, complaints) == (0, "")
    two_node_rig.wait_for(lambda: not agents(two_nodes), "the agents' end")
    assert all(one.poll() is None for one in two_nodes.processes)

    assert (found["rig"], found["source"]) == ("three", f"cluster {two_nodes.address}")
    pc1, pc2, pc3 = found["nodes"]
    for node in (pc1, pc2):
        assert (node["cpus"] or 0) > 0
        assert node["cpu_percent"] is not None
        assert node["limits"]["cpu_warn_percent"] == 90
        assert node["gpus_found"] == 0
    assert pc1["gpus"] == []
    missing = {sign["subject"]: sign["text"] for sign in found["warnings"] if sign["kind"] == "missing"}
    assert missing.keys() == {"pc2/gpu0", "pc3"}
    assert "type there: `env RAY_AUTH_MODE=token ray start --address=" in missing["pc3"]
    assert (pc3["presence"], pc3["cpu_percent"]) == ("missing", None)
