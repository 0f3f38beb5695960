"""Crews: workers that work together in a stage."""

from dataclasses import dataclass
from typing import Literal

# Each planned worker by itself; the first worker of each device, or of each node, by itself; the first ones
# of every two devices, or nodes, of all devices of a SKU, or of all devices together.
CrewKind = Literal["workers", "devices", "nodes", "pairs", "node_pairs", "groups", "rig"]
Address = tuple[str, int]  # host, port


@dataclass(frozen=True, slots=True)
class Crew:
    """Workers that work together, by rank; `subject` is what their work is about."""

    subject: str
    workers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """A worker's place in its crew.

    `rendezvous`: on the host of rank 0, reachable from the others, where nobody listened when the crew began;
    None for a worker alone.
    """

    subject: str
    rank: int = 0
    size: int = 1
    rendezvous: Address | None = None


Turn = tuple[Crew, ...]  # that work at once: no worker is in two of them
