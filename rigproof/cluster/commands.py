"""The `ray start` line to type on a machine that is missing from the cluster. Pure."""

from rigproof.profiles.models import Node

GCS_PORT = 6379  # Ray's own default


def ray_start_line(node: Node, head_address: str | None, *, token: bool = True) -> str:
    """The line that brings `node` into the cluster at `head_address` ("HOST:PORT").

    Without an address the line makes this node the head. `token` puts token authentication in front, which
    refuses to start without a token instead of letting everybody on the network in.
    """
    parts = ["RAY_AUTH_MODE=token"] if token else []
    parts += ["ray", "start"]
    if head_address is None:
        parts += ["--head", f"--port={GCS_PORT}", "--include-dashboard=false"]
    else:
        parts.append(f"--address={head_address}")
    if node.address is not None:
        parts.append(f"--node-ip-address={node.address}")
    parts.append(f"--node-name={node.name}")
    if node.cpus is not None:
        parts.append(f"--num-cpus={int(node.cpus)}")
    parts.append(f"--num-gpus={cuda_gpus(node)}")
    return " ".join(parts)


def head_of(nodes: tuple[Node, ...]) -> str:
    """Where a cluster of these nodes has its head: the first node, at Ray's default port."""
    first = nodes[0]
    return f"{first.address or first.name}:{GCS_PORT}"


def cuda_gpus(node: Node) -> int:
    """GPUs that the node promises, the CPU as a device left out."""
    return sum(gpu.device == "cuda" for gpu in node.gpus)
