"""Which Ray node is which promised node. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rigproof.host.addresses import same_host
from rigproof.profiles.auto import node_name
from rigproof.profiles.tables.node import Node


@dataclass(frozen=True, slots=True)
class FoundNode:
    """A living node of the cluster. `here`: the driver's own; `port`: its raylet's, 0 where unknown."""

    node_id: str
    name: str
    address: str
    hostname: str
    cpus: float
    gpus: float
    here: bool = False
    port: int = 0


def match_nodes(promised: Sequence[Node], found: Sequence[FoundNode]) -> dict[str, FoundNode]:
    """The Ray node of each promised node, by name; promised nodes without one are left out.

    The strongest evidence comes first, for all nodes: the name given to `ray start --node-name`, the address,
    the hostname (of the profile's name or address). A rig of one node without an address is the machine
    that the driver runs on. No Ray node is taken twice.
    """
    signs: tuple[Callable[[Node, FoundNode], bool], ...] = (
        lambda node, other: other.name == node.name,
        lambda node, other: node.address is not None and other.address == node.address,
        lambda node, other: same_host(other.hostname, node.name),
        lambda node, other: node.address is not None and same_host(other.hostname, node.address),
        lambda node, other: len(promised) == 1 and node.address is None and other.here,
    )
    matched: dict[str, FoundNode] = {}
    taken: set[str] = set()
    for sign in signs:
        for node in promised:
            candidates = [other for other in found if other.node_id not in taken and sign(node, other)]
            if node.name not in matched and candidates:
                matched[node.name] = candidates[0]
                taken.add(candidates[0].node_id)
    return matched


def names_of(found: Sequence[FoundNode]) -> dict[str, FoundNode]:
    """Every node by its given name, else by its hostname; names already taken get a number."""
    named: dict[str, FoundNode] = {}
    taken: set[str] = set()  # in lower case: a rig has no two names that differ in case alone
    for node in sorted(found, key=lambda one: (one.address, one.name)):
        base = node_name(node.name if node.name not in ("", node.address) else node.hostname)
        name, number = base, 2
        while name.lower() in taken:
            name, number = f"{base}-{number}", number + 1
        taken.add(name.lower())
        named[name] = node
    return named


def local_node(promised: Sequence[Node], hostname: str, addresses: frozenset[str]) -> str | None:
    """The name of the promised node that this machine is, found without a cluster; None if it is none."""
    if len(promised) == 1 and promised[0].address is None:
        return promised[0].name
    for node in promised:
        if node.address is not None and (node.address in addresses or same_host(hostname, node.address)):
            return node.name
    for node in promised:
        if node.address is None and same_host(hostname, node.name):
            return node.name
    return None
