"""The lines to type that make a cluster of a rig's machines. Pure."""

import shlex
from collections.abc import Sequence

from rigproof.host.addresses import host_port
from rigproof.profiles.tables.node import Node

GCS_PORT = 6379  # Ray's own default
TOKEN_PATH = "~/.ray/auth_token"  # noqa: S105 - where `ray get-auth-token` puts it; no token itself


def ray_start_line(
    node: Node,
    head_address: str | None,
    *,
    token: bool = True,
    port: int = GCS_PORT,
    ray: str = "ray",
    more: Sequence[str] = (),
) -> str:
    """The command that joins `node` to the cluster at `head_address` ("HOST:PORT").

    Without an address the command makes this node the head, at `port`. `token` turns token authentication
    on: Ray then refuses to start without a token, instead of admitting everyone on the network. `ray` is the
    command that runs Ray there; `more` are further options.
    """
    parts = ["env", "RAY_AUTH_MODE=token"] if token else []  # `env`: csh knows no NAME=VALUE before a command
    parts += [shlex.quote(ray), "start"]
    if head_address is None:
        parts += ["--head", f"--port={port}", "--include-dashboard=false"]
    else:
        parts.append(shlex.quote(f"--address={head_address}"))
    if node.address is not None:
        parts.append(shlex.quote(f"--node-ip-address={node.address}"))
    parts.append(f"--node-name={node.name}")
    if node.cpus is not None:
        parts.append(f"--num-cpus={int(node.cpus)}")
    parts += [f"--num-gpus={cuda_gpus(node)}", *more]
    return " ".join(parts)


def lines_to_type(nodes: Sequence[Node], *, port: int = GCS_PORT, ray: str = "ray") -> list[str]:
    """All commands to start the rig's cluster by hand, each below the machine to run it on."""
    head, *others = nodes
    address = head_of(nodes, port)
    lines = [
        f"# on {head.name}: a token, once; machines without it cannot join",
        f"test -s {TOKEN_PATH} || {shlex.quote(ray)} get-auth-token --generate",
        f"chmod 600 {TOKEN_PATH}",
    ]
    for node in others:
        there = shlex.quote(node.address or node.name)
        lines += [
            "# or by a USB stick, and chmod 600 there",
            f"ssh {there} 'umask 077 && mkdir -p ~/.ray && cat > {TOKEN_PATH}' < {TOKEN_PATH}",
        ]
    lines += ["", f"# on {head.name}: the head", ray_start_line(head, None, port=port, ray=ray)]
    for node in others:
        lines += ["", f"# on {node.name}", ray_start_line(node, address, ray=ray)]
    lines += [
        "",
        f"# on {head.name}: the test",
        f"rigproof accept --hwprofile RIG --ray-address {shlex.quote(address)}",
    ]
    return lines


def head_of(nodes: Sequence[Node], port: int = GCS_PORT) -> str:
    """Where a cluster of these nodes has its head: the first node."""
    first = nodes[0]
    return host_port(first.address or first.name, port)


def cuda_gpus(node: Node) -> int:
    """GPUs that the node promises, the CPU as a device left out."""
    return sum(gpu.device == "cuda" for gpu in node.gpus)
