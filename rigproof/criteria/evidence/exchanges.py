"""What devices and nodes exchanged in this run, for limits of whatever exchanges more later. Pure.

A ring of n ranks passes 2 (n - 1) / n of each rank's data over every one of its links, in one direction; the
bus bandwidth of an all-reduce (nccl-tests, doc/PERFORMANCE.md) counts just that. So it is the rate of the
ring's slowest link, for any n: of two ranks, the data over the time. It can be held against what two nodes
reach with each other while both send.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.rounds import FEWEST_ROUNDS, Rounds
from rigproof.profiles.planning.subjects import subjects
from rigproof.records.measurements import GB, MB

IN_GB = {GB: 1.0, MB: 1e-3}
TCP, OUT, BACK = "tcp", "out", "back"
OF_TEAM = {"operation": "all_reduce", "group": "", "arm": "as it is"}  # labels
Ways = Mapping[tuple[str, ...], float]  # GB/s between two nodes


@dataclass(frozen=True, slots=True)
class Slowest:
    """The slowest of some ways between nodes: its rate, GB/s, and its two nodes."""

    gbps: float
    nodes: tuple[str, ...]


def ways(evidence: Evidence, by: str) -> Ways:
    """What each node and the next one reached while both sent: in all-reduces by a library, or by plain TCP.

    Ways that were not measured, or whose data were wrong, are left out, and those inside one host.
    """
    return evidence.cached(("ways between nodes", by), lambda: _ways(evidence, by))


def _ways(evidence: Evidence, by: str) -> Ways:
    measuring = [one for one in evidence.kinds if any(label.name == "traffic" for label in one.labels)]
    found: dict[tuple[str, ...], float] = {}
    for pair in subjects(evidence.loaded, "node_ring") if measuring else ():
        if _one_host(evidence, pair.members):
            continue
        every = evidence.rounds(pair.text)
        for kind in measuring:
            own = every.only(every.same("stage", kind.name)).having(traffic=by)
            done, unit = own.verified.measured, IN_GB.get(kind.unit)
            parts = (
                [done.having(direction=way, company="together") for way in (OUT, BACK)]
                if by == TCP
                else [done.having(operation="all_reduce")]
            )
            if unit is not None and len(own.verified) == len(own) and min(map(len, parts)) >= FEWEST_ROUNDS:
                found[pair.members] = unit * min(map(Rounds.rate, parts))
    return found


def _one_host(evidence: Evidence, names: tuple[str, ...]) -> bool:
    """Whether both are nodes of one host, so that nothing between them crosses a LAN."""
    nodes = [evidence.recording.nodes[one] for one in names if one in evidence.recording.nodes]
    return len(nodes) == len(names) and len({(one.hostname, one.address) for one in nodes}) == 1


def slowest_of_ring(evidence: Evidence, by: str) -> Slowest | None:
    """The slowest way that a ring through all nodes takes; None if one of them was not measured."""
    found, ring = ways(evidence, by), subjects(evidence.loaded, "node_ring")
    if not ring or any(one.members not in found for one in ring):
        return None
    nodes = min(found, key=lambda one: found[one])
    return Slowest(found[nodes], nodes)


def bus_gb(gb: float, ranks: int) -> float:
    """What an all-reduce of so many 10^9 bytes passes over each link of the ring."""
    return 2 * (ranks - 1) / ranks * gb


def all_reduced_gbps(evidence: Evidence, devices: Collection[str], most_mib: float) -> float | None:
    """Bus bandwidth of these devices' all-reduces on the slowest rank, GB/s, at the largest size up to this.

    As the run's stage of teams measured them all together; None if it did not, or with more or fewer.
    """
    (*_, team) = subjects(evidence.loaded, "team") or [None]
    if team is None:
        return None
    every = evidence.rounds(team.text).verified.measured
    for kind in (one for one in evidence.kinds if one.crew == "teams"):
        own = every.only(every.same("stage", kind.name)).having(**OF_TEAM)
        sizes = [one for (one,) in own.by_labels("mib") if isinstance(one, int) and 1 <= one <= most_mib]
        of_size = own.having(mib=max(sizes, default=0))
        by_rank = {
            one.rpartition("#")[0]: of_size.only(of_size.same("worker", one))
            for one in of_size.distinct("worker")
        }
        if sizes and by_rank.keys() == set(devices) and min(map(len, by_rank.values())) >= FEWEST_ROUNDS:
            return IN_GB[kind.unit] * min(map(Rounds.rate, by_rank.values()))
    return None
