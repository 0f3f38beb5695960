"""Which nodes a cluster has, asked in a child process: `python -m rigproof.cluster.ray.node_list ADDRESS`.

Unlike joining, this needs no Ray running on this machine. A head that is no Ray, or has another token, can
end or hang only the child.
"""

import os
import sys

from rigproof.host.addresses import one_spelling
from rigproof.host.child import ask
from rigproof.host.parent import die_with_parent, tell

MODULE = "rigproof.cluster.ray.node_list"


def node_names(address: str, limit_s: float) -> frozenset[str]:
    """The names and addresses of the living nodes; empty where the head does not answer within `limit_s`."""
    answer = ask(MODULE, address, limit_s=limit_s)
    return frozenset() if answer.message is None else frozenset(answer.message["names"])


def main(address: str) -> None:
    """Print the names as one line of JSON, and leave without waiting for anything."""
    import ray  # noqa: PLC0415 - not needed where one only asks
    from ray.core.generated.gcs_pb2 import GcsNodeInfo  # noqa: PLC0415

    from rigproof.cluster.ray.environment import joining_environment, settings  # noqa: PLC0415 - imports ray

    with settings(joining_environment(address, open_cluster=False)):
        nodes = ray._raylet.GcsClient(address=address).get_all_node_info()  # noqa: SLF001 - no public way
    alive = [node for node in nodes.values() if node.state == GcsNodeInfo.GcsNodeState.ALIVE]
    names = [name for node in alive for name in (node.node_name, one_spelling(node.node_manager_address))]
    tell(names=names)
    os._exit(0)  # Ray's own way of leaving can hang


if __name__ == "__main__":
    die_with_parent()
    main(sys.argv[1])
