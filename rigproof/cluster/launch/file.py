"""The file that `ray up` starts a rig's cluster from (`provider: local`). Pure.

    provider.head_ip, worker_ips    the nodes' addresses, which must be numeric
    head_start_ray_commands         `ray start --head`, with a token, a mark, and Ray's autoscaler, which
                                    starts Ray on the others by ssh from the head
    worker_start_ray_commands       one command for all: each machine picks its own by its address

Ray's own examples begin each of these with `ray stop`, which ends every Ray on the machine; these do not.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from rigproof.cluster.launch.commands import GCS_PORT, ray_start_line
from rigproof.profiles.tables.node import Node

MARK = "RIGPROOF_CLUSTER"  # in the environment of every process of a cluster that was started by rigproof
# The autoscaler that replaced this one counts a local head as a worker, and so starts one worker too few (Ray
# 2.60).
OLD_AUTOSCALER = "RAY_enable_autoscaler_v2=0"
AUTOSCALING = "--autoscaling-config=~/ray_bootstrap_config.yaml"  # where `ray up` puts this file on the head


@dataclass(frozen=True)
class Launch:
    """What to start: the nodes (the first is the head) with numeric addresses, and how to reach them.

    `ssh_key`: None for ssh's default. `ray`: the command that runs Ray on the nodes.
    """

    rig: str
    nodes: tuple[Node, ...]
    ssh_user: str
    ssh_key: str | None = None
    port: int = GCS_PORT
    ray: str = "ray"

    @property
    def name(self) -> str:
        """Ray's name of the cluster."""
        return f"rigproof-{self.rig}-{self.port}"

    @property
    def mark(self) -> str:
        """The entry `NAME=VALUE` that the cluster's processes have in their environment."""
        return f"{MARK}={self.name}@{self.addresses[0]}"

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of all nodes, the head's first."""
        return tuple(str(node.address) for node in self.nodes)

    @property
    def head_address(self) -> str:
        """HOST:PORT, for --hw-ray-address."""
        return f"{self.addresses[0]}:{self.port}"

    def start_line(self, node: Node) -> str:
        """The line that starts Ray on a node, marked as ours."""
        head = None if node is self.nodes[0] else self.head_address
        more = ["--disable-usage-stats"] + ([AUTOSCALING] if head is None else [])
        line = ray_start_line(node, head, port=self.port, ray=self.ray, more=more)
        before = [shlex.quote(self.mark)] + ([OLD_AUTOSCALER] if head is None else [])
        return " ".join([*before, line])


def launch_text(launch: Launch) -> str:
    """The content of the YAML file for `ray up`."""
    head, *workers = launch.nodes
    key = [f"  ssh_private_key: {_text(launch.ssh_key)}"] if launch.ssh_key else []
    lines = [
        f"# The cluster of the rig {launch.rig}, written by `rigproof cluster`, for `ray up`. End it with",
        "# `rigproof cluster down`: `ray down` and `ray stop` end other people's Ray too.",
        f"cluster_name: {_text(launch.name)}",
        f"max_workers: {len(workers)}",
        "provider:",
        "  type: local",
        f"  head_ip: {_text(launch.addresses[0])}",
        f"  worker_ips: [{', '.join(map(_text, launch.addresses[1:]))}]",
        "auth:",
        f"  ssh_user: {_text(launch.ssh_user)}",
        *key,
        "head_start_ray_commands:",
        f"  - {_text(launch.start_line(head))}",
        f"worker_start_ray_commands:{'' if workers else ' []'}",
        *([f"  - {_text(_own_line(launch, workers))}"] if workers else []),
    ]
    return "\n".join(lines) + "\n"


def numeric(nodes: Sequence[Node], addresses: Sequence[str]) -> tuple[Node, ...]:
    """The nodes with these addresses in place of their own."""
    return tuple(
        node.model_copy(update={"address": address}) for node, address in zip(nodes, addresses, strict=True)
    )


def _own_line(launch: Launch, workers: Sequence[Node]) -> str:
    """One line for all workers, although their GPUs and CPUs differ: each runs the branch of its address.

    SSH_CONNECTION is "client port server port": the address at which the head's ssh reached this machine.
    """
    cases = " ".join(f"*' {node.address} '*) {launch.start_line(node)};;" for node in workers)
    return f'case "$SSH_CONNECTION" in {cases} *) echo not in this rig >&2; false;; esac'


def _text(value: str) -> str:
    """A double-quoted YAML scalar, whatever is in it."""
    inside = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(one if " " <= one <= "~" else f"\\U{ord(one):08x}" for one in inside) + '"'
