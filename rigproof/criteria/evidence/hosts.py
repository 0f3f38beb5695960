"""Hosts of one kind, and the floor that their rates set for one of them."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from statistics import median

from rigproof.criteria.criterion import Limit, NotMeasured
from rigproof.criteria.evidence.nodes import NodeEvidence
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.stages import StageSettings
from rigproof.simulation.host import SimulatedHost

# Firmware takes some of the memory for itself, so that hosts with the same modules differ by up to 1 %; the
# smallest module of a fully equipped server is 1/24 of its memory.
SAME_RAM = 0.03


def alike(node: NodeEvidence) -> Iterator[NodeEvidence]:
    """The other nodes with the same CPU model, as many usable CPUs and as much RAM; none if that is unknown.

    So a host with a missing memory module or a lower limit of its container has no equal.
    """
    own = node.identity
    for other in node.evidence.nodes:
        if other.subject == node.subject or not other.found or own.cpu_model is None:
            continue
        its = other.identity
        if (its.cpu_model, its.cpus) == (own.cpu_model, own.cpus) and _same_ram(its.ram_gib, own.ram_gib):
            yield other


def _same_ram(one_gib: float, other_gib: float) -> bool:
    return abs(one_gib - other_gib) <= SAME_RAM * max(one_gib, other_gib)


def no_equal(loaded: LoadedRig, node: str) -> str:
    """Why the rates of this node of a simulated rig are judged by no other host; empty if they are."""
    hosts = {one.name: SimulatedHost(loaded, one.name, (), seed=0) for one in loaded.rig.nodes}
    own = hosts.pop(node)
    equal = any(one.cpus == own.cpus and _same_ram(one.ram_gib(), own.ram_gib()) for one in hosts.values())
    return "" if equal else "there is neither another host of its kind nor a floor"


def host_floor(
    node: NodeEvidence,
    table: type[StageSettings],
    stage: str,
    stated: str,
    rate_of: Callable[[NodeEvidence], float],
) -> Limit | None:
    """The floor of a host's rate: the one `stated`, else `peer_share` of the median of the hosts of its kind.

    None if none is stated and no other host was measured. `rate_of` gives a host's rate, and raises
    NotMeasured for one that cannot be compared.
    """
    floor = node.stage_limit(table, stage, stated)
    if floor is not None:
        return floor
    rates = []
    for other in alike(node):
        with suppress(NotMeasured):
            rates.append(rate_of(other))
    share = node.stage_limit(table, stage, "peer_share")
    if not rates or share is None:
        return None
    others = "the other host" if len(rates) == 1 else f"the median of {len(rates)} other hosts"
    return Limit(share.value * median(rates), f"{share.value:g} of {others} of this kind; {share.source}")
