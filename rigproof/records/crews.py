"""Crews: workers that work together in a stage."""

from dataclasses import dataclass
from typing import Literal

# "workers": each planned worker by itself; "devices", "nodes": the first worker of each, by itself. The
# others join first workers: "hosts" those of all GPUs of a node, "neighbours" likewise where it has several,
# "pairs" those of every two devices, "node_pairs" those of every two nodes, "node_ring" those of each node
# and the next one, "network" those of all nodes, if there are several, "groups" those of all devices of a
# SKU, "teams" those of all devices of a node and then of the rig, where they are several, "rig" those of all
# devices, if there are several.
# fmt: off
CrewKind = Literal[
    "workers", "devices", "nodes", "hosts", "neighbours", "pairs", "node_pairs", "node_ring", "network",
    "groups", "teams", "rig",
]
# fmt: on
Address = tuple[str, int]  # host, port


@dataclass(frozen=True, slots=True)
class Crew:
    """Workers that work together, by rank; `subject` is what their work is judged as."""

    subject: str
    workers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """A worker's place in its crew.

    `rendezvous`: an address on the host of rank 0 that the others can reach, and that was free when the crew
    began; None for a single worker. `begins_s`: the run time at which all its members begin. `workers`: the
    names of all of them, by rank.
    """

    subject: str
    rank: int = 0
    size: int = 1
    rendezvous: Address | None = None
    begins_s: float = 0.0
    workers: tuple[str, ...] = ()

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that its crew's workers work for, by rank."""
        return tuple(one.rpartition("#")[0] for one in self.workers)

    @property
    def meets_at(self) -> Address:
        """Where the processes of a crew of several meet."""
        assert self.rendezvous is not None, "a crew of several has a place to meet"
        return self.rendezvous


Turn = tuple[Crew, ...]  # crews that work at the same time: no worker is in two of them
