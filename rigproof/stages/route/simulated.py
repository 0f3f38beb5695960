"""Simulated hosts on a LAN: each has a cable and Wi-Fi, and the cable is taken."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from ipaddress import IPv4Interface, IPv6Interface, ip_address, ip_interface, ip_network
from typing import Any, get_args

from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.records.measurements import MB
from rigproof.simulation.faults.kinds import FaultKind, Key
from rigproof.simulation.stage import Records, SimulatedForm
from rigproof.simulation.timetable import at_rest
from rigproof.simulation.work.task import Task
from rigproof.stages.route.choice import group_of, neighbours
from rigproof.stages.route.stage import (
    AS_IT_IS,
    PINNED,
    Arm,
    LanArm,
    LanInterface,
    LanNode,
    LanProbe,
    Library,
    RouteSpec,
)


def _alone(loaded: LoadedRig, _node: str) -> str:
    return "" if len({one.node for one in loaded.devices()}) > 1 else "the rig has no other node"


def _fault(name: str, what: str, *keys: Key, **more: Any) -> FaultKind:
    return FaultKind(
        name,
        what,
        ("lan.route",),
        scope="node",
        keys=("stage", *keys),
        stage="route",
        host_lacks=_alone,
        **more,
    )


FAULTS = (
    _fault(
        "lan-wrong-route",
        "a library (gloo, NCCL or Ray) takes the Wi-Fi, although a cable joins the nodes, too",
        "field",
        defaults={"field": "gloo"},
        fields=get_args(Library),
    ),
    _fault("lan-loopback-name", "the host's own name resolves to 127.0.1.1, as Debian writes it"),
    _fault("lan-mtu", "the switch drops frames that are larger than 1500 bytes, without a word"),
    _fault("clock-skew", "the host's clock is 90 s ahead", ends="warns"),
)

CABLE, WIFI = "eth0", "wlan0"
FIRST = {CABLE: "192.168.0.10", WIFI: "192.168.64.10"}  # the invented address of the first host
PREFIX = 18  # of invented networks
LONGEST_PREFIX = {4: 24, 6: 64}  # by the version of IP: of the network of stated addresses
KINDS = {CABLE: "ethernet", WIFI: "wifi"}
# Lead: what TCP carries over 1 GbE, and over Wi-Fi in the same room.
MBPS = {CABLE: 941.0, WIFI: 320.0}
ARM_MB, OTHERS_MB = 16.0, 0.02
JUMBO, USUAL = 9000, 1500
SKEW_S, ERROR_S, LATE_S = 90.0, 2e-4, 3e-3
ROUND_S = 0.12


def records(task: Task, spec: RouteSpec) -> Records:
    """What a node finds of its two neighbours, at most."""
    own = task.crew.rank
    name = spec.nodes[own]
    head = {"stage": spec.stage, "worker": task.plan.worker, "subject": name}
    wrong, loopback, mtu, skew = (task.host_fault(one.name) for one in FAULTS)
    over = {library: WIFI if wrong and wrong.field == library else CABLE for library in get_args(Library)}
    size = JUMBO if mtu else USUAL
    addresses = {node.name: node.address for node in task.node.rig.loaded.rig.nodes}
    cables = stated(tuple(addresses.get(node) for node in spec.nodes))
    places = {CABLE: cables or invented(CABLE, len(spec.nodes)), WIFI: invented(WIFI, len(spec.nodes))}
    t_s = task.start_s + spec.duration_s / 4
    for interface, kind in KINDS.items():
        yield LanInterface(
            t_s,
            **head,
            name=interface,
            kind=kind,  # type: ignore[arg-type]
            addresses=str(places[interface][own]),
            mtu=size if interface == CABLE else USUAL,
            speed_mbps=1000 if interface == CABLE else None,
            full_duplex=True if interface == CABLE else None,
            up=True,
        )
    for other in neighbours(own, range(len(spec.nodes))):
        for interface in KINDS:
            t_s += ROUND_S
            labels = {"to": spec.nodes[other], "over": interface}
            megabytes = MBPS[interface] / 8 * ROUND_S
            done = task.round(t_s, "measure", ROUND_S, megabytes, unit=MB, labels=labels)
            yield replace(done, subject=name)
            full = size if interface == CABLE else USUAL
            yield LanProbe(
                t_s,
                **head,
                to=spec.nodes[other],
                interface=interface,
                source=str(places[interface][own].ip),
                to_interface=interface,
                target=str(places[interface][other].ip),
                network=str(places[interface][own].network),
                outcome="open",
                mbps=MBPS[interface] * (1 + task.noise.gauss(0, 0.01)),
                full=full,
                passed=USUAL,
                told=None,
            )
    t_s = task.start_s + spec.duration_s
    group = group_of(own, range(len(spec.nodes)))
    partners = " ".join(spec.nodes[rank] for rank in group if rank != own)
    tried: list[tuple[Library, Arm]] = [("Ray", AS_IT_IS), ("gloo", AS_IT_IS), ("gloo", PINNED)]
    if all(spec.gpus[rank] for rank in group):
        tried += [("NCCL", AS_IT_IS), ("NCCL", PINNED)]
    for library, arm in tried:
        fails = loopback is not None and (library, arm) == ("gloo", AS_IT_IS)
        if not fails:
            labels = {"to": partners, "over": f"{library} {arm}"}
            done = task.round(t_s, "measure", ARM_MB * 8 / MBPS[CABLE], ARM_MB, unit=MB, labels=labels)
            yield replace(done, subject=name)
        yield _arm(t_s, head, library, arm, over[library] if arm == AS_IT_IS else CABLE, fails=fails)
    gloo = "127.0.1.1" if loopback else str(places[over["gloo"]][own].ip)
    yield LanNode(
        t_s,
        **head,
        hostname=name,
        resolves=gloo,
        gloo=gloo,
        nccl=over["NCCL"],
        ray=str(places[over["Ray"]][own].ip),
        variables="",
        best=CABLE,
        network=str(places[CABLE][own].network),
        ahead_s=(SKEW_S if skew else 0.0) + (LATE_S if own else 0.0),
        ahead_error_s=ERROR_S if own else 0.0,
        trouble=None,
        meets_at=spec.nodes[0],
        missing="",
    )


def _arm(t_s: float, head: dict[str, str], library: Library, arm: Arm, over: str, *, fails: bool) -> LanArm:
    sent_mb = OTHERS_MB if fails else ARM_MB + 2 * OTHERS_MB
    other = next(one for one in KINDS if one != over)
    share = 0.5 if fails else 1 - OTHERS_MB / sent_mb
    return LanArm(
        t_s,
        **head,
        arm=arm,
        interface=over if arm == PINNED else "",
        outcome="failed" if fails else "done",
        message="Connection refused, remote=[127.0.1.1]" if fails else "",
        payload_mb=ARM_MB,
        sent_mb=sent_mb,
        names=f"{over} {other}",
        shares=(share, 1 - share),
        library=library,
    )


@cache
def stated(addresses: tuple[str | None, ...]) -> Sequence[IPv4Interface | IPv6Interface]:
    """The hosts' addresses in the network that has them all; none if they are not of one, each its own."""
    with suppress(ValueError):  # a name, or none
        found = [ip_address(one or "") for one in addresses]
        network = ip_network(found[0]).supernet(new_prefix=LONGEST_PREFIX[found[0].version])
        while network.prefixlen and not all(one in network for one in found):
            network = network.supernet()
        if network.prefixlen and len(set(found)) == len(found) and not found[0].is_loopback:
            return [ip_interface(f"{one}/{network.prefixlen}") for one in found]
    return []


@cache
def invented(interface: str, hosts: int) -> Sequence[IPv4Interface | IPv6Interface]:
    """An address for each of so many hosts."""
    return [ip_interface(f"{ip_address(FIRST[interface]) + one}/{PREFIX}") for one in range(hosts)]


SIMULATED = SimulatedForm(at_rest, records)
