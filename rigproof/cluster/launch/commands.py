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


def lines_to_type(
    nodes: Sequence[Node], *, rig: str, port: int = GCS_PORT, ray: str = "ray", activate: str = ""
) -> list[str]:
    """All commands to start the rig's cluster by hand, below the machine to type them on, in their order.

    `rig`: what the command of the test names it by. `activate`: the file of a virtual environment that its
    shell reads before `ray` is found; empty where there is none.
    """
    head, *others = nodes
    address = head_of(nodes, port)
    file = shlex.quote(activate)
    enter = [f"# the environment with rigproof; in csh: source {file}.csh", f". {file}"] if activate else []
    lines = [
        f"# 1. on {head.name}: a token, once; machines without it cannot join",
        *enter,
        f"test -s {TOKEN_PATH} || {shlex.quote(ray)} get-auth-token --generate",
        f"chmod 600 {TOKEN_PATH}",
    ]
    for node in others:
        there = shlex.quote(node.address or node.name)
        lines += [
            f"# the token for {node.name}; without ssh, carry the file there and type there: chmod 600 "
            f"{TOKEN_PATH}",
            f"ssh {there} 'umask 077 && mkdir -p ~/.ray && cat > {TOKEN_PATH}' < {TOKEN_PATH}",
        ]
    lines += ["", f"# 2. on {head.name}: the head", ray_start_line(head, None, port=port, ray=ray)]
    for number, node in enumerate(others, start=3):
        lines += ["", f"# {number}. on {node.name}", *enter, ray_start_line(node, address, ray=ray)]
    lines += [
        "",
        f"# {len(nodes) + 2}. on {head.name}: the test",
        f"rigproof accept --hwprofile {shlex.quote(rig)} --ray-address {shlex.quote(address)}",
        "",
        f"# {len(nodes) + 3}. afterwards, on each of them: this ends every Ray of yours there",
        f"{shlex.quote(ray)} stop",
    ]
    return lines


def head_of(nodes: Sequence[Node], port: int = GCS_PORT) -> str:
    """The address of the head of a cluster of these nodes, which is the first one: HOST:PORT."""
    first = nodes[0]
    return host_port(first.address or first.name, port)


def cuda_gpus(node: Node) -> int:
    """The number of GPUs that the node promises, the CPU as a device left out."""
    return sum(gpu.device == "cuda" for gpu in node.gpus)
