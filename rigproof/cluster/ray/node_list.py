"""Which nodes a cluster has, asked in a child process: `python -m rigproof.cluster.ray.node_list ADDRESS`.

Unlike joining, this needs no Ray on the machine that asks. A head that is no Ray, or has another token, can
end or hang only the child.
"""

import json
import os
import subprocess
import sys

from rigproof.host.package import ROOT

MODULE = "rigproof.cluster.ray.node_list"
BOOT = f"import sys, runpy; sys.path.append(sys.argv[2]); runpy.run_module({MODULE!r}, run_name='__main__')"


def node_names(address: str, limit_s: float) -> frozenset[str]:
    """The names and addresses of the living nodes; empty where the head does not answer within `limit_s`."""
    command = [sys.executable, "-P", "-c", BOOT, address, str(ROOT)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s, check=False
        )
        return frozenset(json.loads(done.stdout.splitlines()[-1]))
    except (subprocess.TimeoutExpired, IndexError, ValueError):
        return frozenset()


def main(address: str) -> None:
    """Print the names as one line of JSON, and leave without waiting for anything."""
    import ray  # noqa: PLC0415 - not needed where one only asks
    from ray.core.generated.gcs_pb2 import GcsNodeInfo  # noqa: PLC0415

    from rigproof.cluster.ray.environment import joining_environment, settings  # noqa: PLC0415 - imports ray

    with settings(joining_environment(address, open_cluster=False)):
        nodes = ray._raylet.GcsClient(address=address).get_all_node_info()  # noqa: SLF001 - no public way
    alive = [node for node in nodes.values() if node.state == GcsNodeInfo.GcsNodeState.ALIVE]
    names = [name for node in alive for name in (node.node_name, node.node_manager_address)]
    sys.stdout.write(json.dumps(names) + "\n")
    sys.stdout.flush()
    os._exit(0)  # Ray's own way of leaving can hang


if __name__ == "__main__":
    main(sys.argv[1])
