"""Which interface gloo and NCCL take, which ways may join two nodes, and which network is the best. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Interface, IPv6Interface, ip_address, ip_interface
from itertools import product
from statistics import median

from rigproof.host.interfaces import Interface, InterfaceKind
from rigproof.records.grouping import grouped
from rigproof.stages.route.stage import GLOO, NCCL

ROUTED = "routed"  # the network of two addresses that share none
# NCCL (ncclFindInterfaces in src/misc/socket.cc, 2.28 to 2.31): prefixes, in this order; ^: all but these.
NCCL_ORDER = ("ib", "^docker,lo,virbr", "docker", "lo", "virbr")
FAMILIES = {"AF_INET": 4, "AF_INET6": 6}
GOOD: frozenset[InterfaceKind] = frozenset(("ethernet", "infiniband"))
MOST_WAYS = 12  # to each neighbour: a server with eight ports in one network has 64
ABOUT_AS_FAST = 0.67  # of the fastest: bursts of equal links differ
FILLED_MBPS = 10_000  # a slower port is told from a faster one by the bursts themselves
FULL = 0.85  # of what a port states: a burst of so much was limited by the port, whose payload is 0.94


def gloo_takes(own: Sequence[Interface], variables: Mapping[str, str], resolved: Sequence[str]) -> str:
    """The address that gloo binds to, as torch asks it to; empty if it finds none and fails.

    That of the first interface that GLOO_SOCKET_IFNAME names; else the first address of the own hostname that
    this host has; else loopback (torch, ProcessGroupGloo.cpp; gloo, transport/tcp/device.cc).
    """
    if name := variables.get(GLOO, "").split(",")[0]:
        addresses = [one.addresses for one in own if one.name == name]
        return _bare(addresses[0][0]) if addresses else ""
    usable = {_bare(address) for one in own for address in one.addresses}
    return next((one for one in resolved if one in usable or is_loopback(one)), "127.0.0.1")


def nccl_takes(own: Sequence[Interface], variables: Mapping[str, str]) -> tuple[str, ...]:
    """The interfaces that NCCL opens sockets on, that of its bootstrap first (docs of NCCL_SOCKET_IFNAME)."""
    family = FAMILIES.get(variables.get("NCCL_SOCKET_FAMILY", ""))
    candidates = [one for one in own if one.up and any(_counts(address, family) for address in one.addresses)]
    candidates.sort(key=lambda one: not any(":" not in address for address in one.addresses))  # IPv4 first
    stated = variables.get(NCCL, "")
    for rule in (stated,) if len(stated) > 1 else NCCL_ORDER:
        if found := tuple(one.name for one in candidates if _matches(one.name, rule)):
            return found
    return ()


def _counts(address: str, family: int | None) -> bool:
    found = ip_interface(address)
    return (family in (None, found.version)) and not (found.version == 6 and found.is_loopback)


def _matches(name: str, rule: str) -> bool:
    excluded, rule = rule.startswith("^"), rule.removeprefix("^")
    exact, rule = rule.startswith("="), rule.removeprefix("=")
    entries = [entry.split(":")[0] for entry in rule.split(",") if entry]
    found = any(name == entry if exact else name.startswith(entry) for entry in entries)
    return found != excluded


def is_loopback(address: str) -> bool:
    """Whether it leads to the own host only. False for what is no address."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def interface_of(address: str, own: Iterable[Interface]) -> Interface | None:
    """The interface that has this address; loopback has all of its network."""
    for one in own:
        if any(_bare(found) == address for found in one.addresses):
            return one
        if one.kind == "loopback" and is_loopback(address):
            return one
    return None


@dataclass(frozen=True, slots=True)
class Way:
    """A way that may lead from one node to another: interfaces, addresses, and the network of both."""

    interface: str
    source: str
    to_interface: str
    target: str
    network: str


def ways(
    own: Sequence[Interface], other: Sequence[Interface], stated: Iterable[tuple[str, str]]
) -> tuple[Way, ...]:
    """The `stated` ways, and one for each two interfaces that have addresses of one network.

    `stated` are pairs of addresses, own and other, that libraries would use. Addresses that both nodes have,
    as those of Docker's bridges, lead nowhere. Of two interfaces a routed way is no reason to leave out a
    network that both are in, such as one of IPv6.
    """
    every: dict[tuple[str, str], Way] = {}
    theirs_too = {_bare(address) for one in other for address in one.addresses}
    for source, target in stated:
        at, to = interface_of(source, own), interface_of(target, other)
        if at is None or to is None or "loopback" in (at.kind, to.kind) or source in theirs_too:
            continue
        if (":" in source) == (":" in target):
            way = Way(at.name, source, to.name, target, _shared_network(source, at, target))
            every.setdefault((source, target), way)
    # Where several ports are in one network, those of the same number first: rails are cabled so.
    places = sorted(product(range(len(own)), range(len(other))), key=lambda place: abs(place[0] - place[1]))
    for way in filter(None, (_direct(own[mine], other[theirs]) for mine, theirs in places)):
        ends = way.interface, way.to_interface
        if not any(
            ends == (one.interface, one.to_interface) for one in every.values() if one.network != ROUTED
        ):
            every[way.source, way.target] = way
    return tuple(every.values())[:MOST_WAYS]


def _direct(own: Interface, other: Interface) -> Way | None:
    """The way between addresses of one network, of IPv4 if both have them; None if there is none."""
    if "loopback" in (own.kind, other.kind) or not (own.up and other.up):
        return None
    for source, target in product(sorted(own.parsed(), key=_version), sorted(other.parsed(), key=_version)):
        if source.network == target.network and source.ip != target.ip:
            return Way(own.name, str(source.ip), other.name, str(target.ip), str(source.network))
    return None


def _version(address: IPv4Interface | IPv6Interface) -> int:
    return address.version


def _shared_network(source: str, at: Interface, target: str) -> str:
    for one in at.parsed():
        if str(one.ip) == source and ip_address(target) in one.network:
            return str(one.network)
    return ROUTED


def neighbours(rank: int, present: Sequence[int]) -> tuple[int, ...]:
    """The next and the previous one in a ring of those that are present; of two nodes the other one."""
    place, size = present.index(rank), len(present)
    return tuple(dict.fromkeys((present[(place + 1) % size], present[place - 1])))


def group_of(rank: int, present: Sequence[int]) -> tuple[int, ...]:
    """Those that reduce together: every two, and the last three if they are an odd number."""
    place = present.index(rank) // 2 * 2
    if len(present) % 2 and place >= len(present) - 3:
        return tuple(present[-3:])
    return tuple(present[place : place + 2])


@dataclass(frozen=True, slots=True)
class Found:
    """An open way as probed. `whole`: full packets pass; `rays`: it joins the addresses that Ray has.

    `port_mbps`: the speed that the slower of its two ports states; None where one states none.
    """

    nodes: tuple[str, str]  # from, to
    interfaces: tuple[str, str]  # of the same
    kinds: tuple[InterfaceKind, InterfaceKind]
    network: str
    whole: bool
    mbps: float
    rays: bool
    port_mbps: int | None = None

    @property
    def ends(self) -> tuple[tuple[str, str], ...]:
        """Node and interface, of both."""
        return tuple(zip(self.nodes, self.interfaces, strict=True))


@dataclass(frozen=True, slots=True)
class Best:
    """The best network, and the interface that each node has in it; empty if no way is open."""

    network: str = ""
    interfaces: Mapping[str, str] = field(default_factory=dict)


def best_of(found: Sequence[Found]) -> Best:
    """The network that joins most nodes, over the best interface of each: cables, full packets, then speed.

    Of those about as fast as the fastest, that of Ray. The same on every node, since each of them knows what
    all have found.
    """
    networks = grouped(found, lambda one: one.network)
    if ROUTED in networks:
        networks[ROUTED] = _routed(found)
    plans = {name: _plan(own) for name, own in networks.items()}
    used = {name: [one for one in networks[name] if _uses(one, plan)] for name, plan in plans.items()}
    used = {name: own for name, own in used.items() if own}
    if not used:
        return Best()

    def rank(name: str) -> tuple[int, bool, bool]:
        own = used[name]
        cables = all(kind in GOOD for one in own for kind in one.kinds)
        return len({one.nodes for one in own}), cables, all(one.whole for one in own)

    highest = max(map(rank, used))
    speeds = {name: _speed(own) for name, own in used.items() if rank(name) == highest}
    fastest = max(one.burst for one in speeds.values())
    fast = {name: own for name, own in speeds.items() if own.burst >= ABOUT_AS_FAST * fastest}
    not_outdone = [
        name
        for name, own in fast.items()
        if not any(own.outdone_by(one, 1 / ABOUT_AS_FAST) for one in fast.values())
    ]
    chosen = min(not_outdone, key=lambda name: (not any(one.rays for one in used[name]), name))
    return Best(chosen, plans[chosen])


def _routed(found: Sequence[Found]) -> list[Found]:
    """Ways by a router, and those of the networks that they join: of racks each has one of its own."""
    routed = {end for one in found if one.network == ROUTED for end in one.ends}
    joined = {one.network for one in found if not routed.isdisjoint(one.ends)}
    return [one for one in found if one.network in joined]


@dataclass(frozen=True, slots=True)
class Speed:
    """What a burst over a way reached, and what the slower of its two ports states, Mbit/s."""

    burst: float
    port: int | None

    def outdone_by(self, other: "Speed", factor: float) -> bool:
        """Whether another way's ports state `factor` times the speed of these, and its burst bears that out.

        It does if it was more than these ports carry. Where one CPU core was the limit of both bursts (it
        fills 10 Gbit/s, and sends 14 of 25 as of 100), what the ports state is all that is known.
        """
        if not self.port or not other.port or self.port < FILLED_MBPS or self.burst > self.port:
            return False  # what states less than it carries, as a bond may, states nothing
        as_fast = other.burst >= max(FILLED_MBPS, ABOUT_AS_FAST * self.burst)
        by_one_core = FILLED_MBPS <= self.burst < FULL * self.port and as_fast
        return other.port >= factor * self.port and (other.burst > self.port or by_one_core)


def _speed(own: Sequence[Found]) -> Speed:
    """Of a network, by the ways that are used."""
    ports = [one.port_mbps for one in own if one.port_mbps is not None]
    return Speed(median(one.mbps for one in own), min(ports) if len(ports) == len(own) else None)


def _plan(ways_found: Sequence[Found]) -> dict[str, str]:
    """The interface that each node should take in one network, in which it may have several."""
    scores: dict[str, dict[str, tuple[bool, bool, float]]] = defaultdict(dict)
    for one in ways_found:
        for node, interface, kind in zip(one.nodes, one.interfaces, one.kinds, strict=True):
            score = (kind in GOOD, one.rays, one.mbps)
            scores[node][interface] = max(score, scores[node].get(interface, score))
    plan = {}
    for node, own in scores.items():
        fastest = max(mbps for good, _, mbps in own.values() if good == max(own.values())[0])
        fit = {
            name: score
            for name, score in own.items()
            if score[0] == max(own.values())[0] and score[2] >= ABOUT_AS_FAST * fastest
        }
        plan[node] = max(fit, key=lambda name: (fit[name][1], fit[name][2], name))
    return plan


def _uses(one: Found, plan: Mapping[str, str]) -> bool:
    return all(plan[node] == name for node, name in one.ends)


def _bare(address: str) -> str:
    return address.partition("/")[0]
