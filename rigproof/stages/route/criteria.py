"""Do gloo, NCCL and Ray take the best way between the nodes, and does it carry what they send?"""

from collections.abc import Callable, Iterator, Sequence

from rigproof.criteria.criterion import Criterion, Finding, NotMeasured
from rigproof.criteria.evidence.nodes import NodeEvidence
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, figure
from rigproof.stages.route.choice import GOOD, is_loopback
from rigproof.stages.route.stage import (
    AS_IT_IS,
    GLOO,
    KIND,
    NCCL,
    PINNED,
    STAGE,
    LanArm,
    LanInterface,
    LanProbe,
    Library,
)
from rigproof.stages.route.ways import EATEN, FASTER_FACTOR, IN_WORDS, Ways, share_of
from rigproof.stages.tables import NO_RATE, StageTable

LEAST_MBPS = KIND.key(lambda own: own.least_mbps)
CLOCK_WARN_S = KIND.key(lambda own: own.clock_warn_s)
BEST = "the best way between the nodes"


@Criterion(
    "lan.route",
    title="ways between nodes",
    scope="node",
    limit="each node's own name leads to it from outside; gloo, NCCL (where there are GPUs) and Ray take a "
    "way that no other one between the same nodes beats (a cable beats Wi-Fi, VPN and a bridge of "
    "containers; of two cables one `stages.route.faster_factor` times as fast, by bursts, or by what the "
    "ports state where a burst is more than the slower ports carry, or one CPU core the limit of both), at "
    "no less than `stages.route.least_mbps` and full duplex; connections to a port that the system "
    "chose are answered, packets of the full size arrive, and what the three send is right. Clocks that "
    "differ by more than `stages.route.clock_warn_s` warn, and MTUs that differ",
    limits=(FASTER_FACTOR, LEAST_MBPS, CLOCK_WARN_S),
    severity="config",
    remedy="look at the table of ways in the report, and run `ip address` and `ip route` on this host",
    unmeasured="its worker did not end, the nodes did not meet, no way between them was probed, a library "
    "could not be tried, or Ray's object did not come",
    stages=(STAGE,),
)
def route(node: NodeEvidence) -> Finding:
    """What the node has for traffic with the others, what libraries take of it, and what that carries.

    gloo and, between GPUs, NCCL each do an all-reduce as it is and pinned to the best interface; Ray sends an
    object from store to store. What they take is what the interfaces count meanwhile. Each node probes two
    neighbours, and exchanges with one or two: a way that only other pairs use is not seen. Of a node with
    GPUs beside one without, what NCCL takes is predicted by its documented rules.
    """
    ways = Ways(node)
    found = next(filter(None, (one(ways) for one in FINDINGS)), None)
    if found is not None and found.outcome is Outcome.FAIL:
        return found
    detail = ways.in_words()  # a warning hides nothing that was not measured
    return found or Finding(Outcome.PASS, detail=detail, source=BEST)


def failed(source: str, detail: str, remedy: str = "") -> Finding:
    """A failure; `source`: what was to be."""
    return Finding(Outcome.FAIL, detail=detail, remedy=remedy, source=source)


def of_meeting(ways: Ways) -> Finding | None:
    """Nodes that could not reach the one that all meet at."""
    own = ways.own
    if own.missing:
        missing = own.missing.split()
        told = {one.subject: one.trouble for one in ways.told() if one.subject in missing}
        kept_out = [name for name, trouble in told.items() if trouble in EATEN and trouble != "refused"]
        if kept_out and len(kept_out) == len(ways.others):
            return firewall(ways, kept_out[0], str(told[kept_out[0]]))
        if len(missing) == len(ways.others):
            raise NotMeasured(f"{', '.join(missing)} did not come to meet it")
    if own.trouble is None:
        return None
    met = [one for one in ways.told() if one.subject != own.meets_at and one.trouble is None]
    if own.trouble in ("no answer", "unreachable") and met and ways.other(own.meets_at) is not None:
        return firewall(ways, own.meets_at, own.trouble, outgoing=True)
    what = EATEN.get(own.trouble, "were not answered in time")
    raise NotMeasured(f"its connections to {own.meets_at}, where all nodes meet, {what}")


def of_firewall(ways: Ways) -> Finding | None:
    """Ports that do not answer at the address that Ray has: there the nodes reach each other."""
    if not ways.out and not ways.back:
        raise NotMeasured("no way between it and another node was probed")
    if kept_out := ways.kept_out(ways.back):
        who = kept_out[0].subject
        others_come = any(one.outcome == "open" for one in ways.back if one.subject != who)
        if not (others_come and ways.kept_out_of_others(who)):
            return firewall(ways, who, kept_out[0].outcome)
    for probe in ways.kept_out(ways.out):
        if ways.kept_out_of_others(ways.name) and len({one.to for one in ways.out}) > 1:
            return firewall(ways, probe.to, probe.outcome, outgoing=True)
        raise NotMeasured(f"{probe.to} lets no connection in: see lan.route of {probe.to}")
    return None


def firewall(ways: Ways, other: str, outcome: str, *, outgoing: bool = False) -> Finding:
    """The failure that a firewall of this node keeps others out, or itself in."""
    network, what = ways.ray_network, EATEN[outcome]
    allow, detail = (
        (f"out to {network}", f"its connections to {other} {what}: a firewall on its way out")
        if outgoing
        else (
            f"from {network}",
            f"connections from {other} to ports that gloo and NCCL choose {what}: a firewall",
        )
    )
    remedy = f"run `sudo ufw allow {allow}` on {ways.name}, or put it into firewalld's zone `trusted`"
    return failed("ports that the system chooses answer", detail, remedy)


def of_name(ways: Ways) -> Finding | None:
    """A name that leads gloo to loopback, or an interface that is not there."""
    own, source = ways.own, "an address that the other nodes reach"
    family = ways.stated.get("NCCL_SOCKET_FAMILY")
    if ways.node.cards and not own.nccl and family and not ways.stated.get(NCCL):
        remedy = f"unset NCCL_SOCKET_FAMILY in ~/.bashrc on {ways.name}"
        return failed(source, f"NCCL_SOCKET_FAMILY={family}: no interface here has such an address", remedy)
    for variable, takes in ((GLOO, own.gloo), *([(NCCL, own.nccl)] if ways.node.cards else [])):
        if not takes:
            detail = f"{variable}={ways.stated.get(variable, '')} names no interface with an address here"
            return failed(source, detail, ways.export(variable))
    if not is_loopback(own.gloo):
        return None
    if GLOO in ways.stated:
        detail = f"{GLOO}={ways.stated[GLOO]}: gloo waits on {own.gloo}, where no other node reaches it"
        return failed(source, detail, ways.export(GLOO))
    name, address = own.hostname, ways.address(ways.name)
    says = f"is {own.resolves.split()[0]}" if own.resolves else "cannot be looked up"
    instead = f" in place of the line with {own.resolves.split()[0]}" if own.resolves else ""
    detail = f"its own name {name} {says} here: gloo waits on {own.gloo}, where no other node reaches it"
    remedy = f"set `{address} {name}` in /etc/hosts on {ways.name}{instead}; it acts at once"
    return failed(source, detail, remedy)


def of_packets(ways: Ways) -> Finding | None:
    """Packets of the full size that get lost while small ones arrive."""
    source = "packets of the interface's MTU arrive"
    for one in ways.used_out:
        if one.outcome not in ("open", "stalled"):
            continue
        if 0 < one.passed < one.full:
            detail = (
                f"packets of {one.full} bytes from {one.interface} get lost on their way to {one.to}, "
                f"those of {one.passed} arrive: a port on the way carries no more"
            )
            remedy = (
                f"run `sudo ip link set dev {one.interface} mtu {one.passed}` on {ways.name} (until a "
                f"reboot), or let the switch and {one.to} carry {one.full}"
            )
            return failed(source, detail, remedy)
        if one.outcome == "stalled":
            detail = f"what was sent from {one.interface} to {one.to} stalled after the first bytes"
            remedy = f"run `ping -M do -s 1472 {one.target}` on {ways.name}, and look at MTU and cable"
            return failed(source, detail, remedy)
    over = [name for name in ways.node.unverified(STAGE).labels("over") if name in ways.interfaces]
    if over:  # else it is a library's sum, or an object of Ray's
        detail = f"bytes arrived otherwise than they were sent over {over[0]}"
        remedy = "do not train over it: replace cable and card, or `ethtool -K` its offloads off"
        return failed("bytes arrive as they were sent", detail, remedy)
    return None


def of_choice(ways: Ways) -> Finding | None:
    """A worse way than the best one."""
    if ways.best is None:
        return None
    best = ways.best.name
    wrong = {library: name for library, name in ways.taken.items() if name != best}
    reasons = {library: why for library, name in wrong.items() if (why := ways.worse(name))}
    if not reasons:
        return None
    (library, why), *others = reasons.items()
    name = ways.taken[library]
    pinned = ways.stays(library) or not others
    detail = (
        ways.moved(library, name, pinned=pinned)
        or f"{library} takes {name or 'an address'} ({why}), not {best}"
    )
    too = [other for other, _ in others if ways.taken[other] == name]
    if too:
        detail += f"; {' and '.join(too)} take{'s' * (len(too) == 1)} it, too"
    detail += "".join(
        f"; {other} takes {ways.taken[other] or 'an address'}" for other, _ in others if other not in too
    )
    address = ways.best_address
    if library == "Ray":
        remedy = (
            f"run `rigproof cluster down`, set {ways.name}'s `address` in the profile to {address}, then `up`"
        )
        return failed(BEST, detail, f"{remedy}; by hand, `ray start` with `--node-ip-address`")
    if ways.stays(library):
        own = ways.interfaces.get(name)
        off = "radio wifi off" if own is not None and own.kind == "wifi" else f"device disconnect {name}"
        last = "let it come last: `nmcli connection modify NAME ipv4.route-metric 2000`"
        return failed(BEST, detail, f"run `nmcli {off}` on {ways.name}, or {last}")
    if "Ray" in reasons:
        restart = f"restart Ray with {ways.name} at {address} in the profile"
        return failed(BEST, detail, ways.export(ways.variable, restart))
    return failed(BEST, detail, ways.export(ways.variable))


def of_traffic(ways: Ways) -> Finding | None:
    """What the libraries did as they are, and pinned: failures first, then what is not known of one."""
    found: list[Finding | None] = []
    unknown: list[NotMeasured] = []
    for of_library in (of_gloo, of_nccl, of_ray):
        try:
            found.append(of_library(ways))
        except NotMeasured as error:
            unknown.append(error)
    told = [one for one in found if one is not None]
    failures = [one for one in told if one.outcome is Outcome.FAIL]
    if unknown and not failures:
        raise unknown[0]
    return next(iter([*failures, *told]), None)


def of_gloo(ways: Ways) -> Finding | None:
    """What gloo did."""
    return _of_arms(ways, "gloo", GLOO)


def of_nccl(ways: Ways) -> Finding | None:
    """What NCCL did, if the nodes have GPUs for it. Older recordings know nothing of it."""
    own, gloo = ways.arm("NCCL", AS_IT_IS), ways.arm("gloo", AS_IT_IS)
    if own is None and _nccl_planned(ways) and gloo is not None and gloo.outcome == "done":
        raise NotMeasured("NCCL was not tried as it is")
    tried = ways.node.cards and own is not None and own.outcome != "left out"
    return _of_arms(ways, "NCCL", NCCL) if tried else None


def _nccl_planned(ways: Ways) -> bool:
    """Whether all nodes were told that they all have GPUs."""
    told = [one.get("gpus") for one in ways.node.evidence.specs(STAGE)]
    return bool(told) and all(isinstance(one, Sequence) and one and all(one) for one in told)


def of_ray(ways: Ways) -> Finding | None:
    """Whether Ray's object came: if it did not, lan.bandwidth finds out why."""
    own, gloo = ways.arm("Ray", AS_IT_IS), ways.arm("gloo", AS_IT_IS)
    if own is None and gloo is not None and ways.others_tried("Ray"):
        raise NotMeasured("Ray's object was not sent", "see lan.bandwidth")
    if own is None or own.outcome == "done":
        return None
    if own.outcome == "wrong":
        return failed("an object comes as it was", "Ray's object came with other bytes", "do not train on it")
    raise NotMeasured(f"Ray's object did not come: {own.message}", "see lan.bandwidth")


def _of_arms(ways: Ways, library: Library, variable: str) -> Finding | None:
    own, pinned = ways.arm(library, AS_IT_IS), ways.arm(library, PINNED)
    source = f"an all-reduce by {library} is right"
    for arm, one in ((AS_IT_IS, own), (PINNED, pinned)):
        if one is not None and one.outcome == "wrong":
            return failed(source, f"{library}'s all-reduce, {arm}, gave a wrong answer", "do not train on it")
    for arm, one in ((AS_IT_IS, own), (PINNED, pinned)):
        if one is None or one.outcome == "broken":
            why = "" if one is None else one.message
            raise NotMeasured(f"{library} was not tried {arm}", why or _why_not_tried(ways))
    assert own is not None
    assert pinned is not None
    if own.outcome != "done":
        return _of_failed(ways, own, pinned, variable)
    if pinned.outcome == "done":
        return None
    detail = f"{library} works as it is, and not if told to use {pinned.interface} ({_short(pinned)})"
    return Finding(Outcome.WARN, detail=detail, source=source)


def _of_failed(ways: Ways, own: LanArm, pinned: LanArm, variable: str) -> Finding:
    """Why a library does not get through as it is."""
    library, here, source = own.by, _short(own), f"an all-reduce by {own.by} is right"
    if library == "gloo" and (other := _of_other_family(ways)):
        its = ways.other(other)
        takes = its.gloo if its is not None else ""
        detail = f"gloo takes {ways.own.gloo} here and {takes} on {other}: it joins no two families"
        return failed(source, detail, ways.export(GLOO))
    if pinned.outcome == "done":
        detail = f"{library} fails as it is ({here}), and works if told to use {pinned.interface}"
        return failed(source, detail, ways.export(variable))
    if ways.by_ipv6_alone:
        detail = f"{library} works by IPv4, and only IPv6 is in common with {', '.join(ways.by_ipv6_alone)}"
        family = ", and put `export NCCL_SOCKET_FAMILY=AF_INET6` into ~/.bashrc" if ways.node.cards else ""
        remedy = f"set {ways.own.hostname} to its address of IPv6 in /etc/hosts on {ways.name}{family}"
        return failed(source, detail, remedy)
    if cause := _why_not_tried(ways):
        raise NotMeasured(f"{library} does not get through: {cause}")
    if "hung" in (own.outcome, pinned.outcome):  # as on a host whose CPUs others have
        raise NotMeasured(f"{library} did not end in time, as it is and pinned: {here}")
    return failed(source, f"{library} does not get through, as it is and pinned: {here}")


def _short(arm: LanArm) -> str:
    """What the library says, without the place in its source."""
    return (arm.message.rpartition("] ")[2] or arm.message)[:40].strip()


def _of_other_family(ways: Ways) -> str:
    """A neighbour whose gloo takes an address of the other version of IP; empty if none does."""
    found = ((name, ways.other(name)) for name in sorted({one.to for one in ways.out}))
    told = ((name, its.gloo) for name, its in found if its is not None and its.gloo)
    return next((name for name, gloo in told if (":" in gloo) != (":" in ways.own.gloo)), "")


def _why_not_tried(ways: Ways) -> str:
    """Which neighbour's fault keeps a library from it; empty if none does."""
    for other in sorted({probe.to for probe in ways.out}):
        its = Ways(ways.node.evidence.node(other))
        try:
            named = of_firewall(its) or of_name(its) or of_packets(its)
        except NotMeasured:
            continue
        if named is not None:
            return f"see lan.route of {other}"
    return ""


def of_port(ways: Ways) -> Finding | None:
    """Half duplex, and cables that have fallen back."""
    least = ways.node.limit(LEAST_MBPS)
    for one in (ways.interfaces[name] for name in sorted(ways.used) if name in ways.interfaces):
        remedy = f"swap the cable of {one.name} on {ways.name}, and look at `ethtool {one.name}`"
        if one.kind == "ethernet" and one.full_duplex is False:
            return failed("full duplex", f"{one.name} is at half duplex", remedy)
        if one.kind == "ethernet" and one.speed_mbps is not None and one.speed_mbps < least.value:
            detail = f"{one.name} runs at {one.speed_mbps} Mbit/s, limit ≥ {least.value:g} Mbit/s"
            return failed(least.source, detail, remedy)
    return None


def of_clock(ways: Ways) -> Finding | None:
    """A wall clock that differs from those of the others."""
    most = ways.node.limit(CLOCK_WARN_S)
    if ways.ahead_s is None or abs(ways.ahead_s) - (ways.own.ahead_error_s or 0.0) <= most.value:
        return None
    detail = f"its clock is {ways.clock} (limit {most.value:g} s)"
    remedy = (
        f"run `timedatectl set-ntp true` on {ways.name}, and `timedatectl` until it says that the clock is "
        "synchronized: logs, TLS and checkpoints go by it"
    )
    return Finding(Outcome.WARN, detail=detail, remedy=remedy, source=most.source)


def of_warnings(ways: Ways) -> Finding | None:
    """What works, and could be better."""
    best = ways.best
    if best is None:
        return None
    detail = remedy = ""
    also = [name for name in ways.own.nccl.split() if name != best.name and ways.worse_for_nccl(name)]
    there = {
        one.to: its
        for one in ways.out
        if one.interface == best.name
        for its in ways.node.evidence.records(LanInterface, one.to)
        if its.name == one.to_interface and its.kind == "ethernet"
    }
    speeds = {to: its.speed_mbps for to, its in there.items() if its.speed_mbps}
    smaller = [its for its in there.values() if its.mtu < best.mtu]
    faster = [to for to, speed in speeds.items() if best.speed_mbps and speed > best.speed_mbps]
    if best.kind not in GOOD:
        detail = f"the nodes are joined by {IN_WORDS[best.kind]} ({best.name}) alone"
        remedy = "join them by a cable"
        if cable := ways.closed_cable:
            detail += f": {cable.interface} to {cable.to}: {cable.outcome}"
            remedy = f"see that the cable of {cable.interface} is in, and that no firewall closes it"
    elif ways.node.cards and also:
        detail, remedy = f"NCCL may also use {', '.join(also)}, beside {best.name}", ways.export(NCCL)
    elif faster:
        detail = f"{best.name} runs at {best.speed_mbps} Mbit/s, {faster[0]} at {speeds[faster[0]]}"
        remedy = f"look at cable and port of {ways.name}: all wait for the slowest"
    elif smaller:
        its = smaller[0]
        detail = f"{best.name} has an MTU of {best.mtu}, {its.name} of {its.subject} one of {its.mtu}"
        remedy = "give both the same: TCP takes the smaller one, all else loses larger packets"
    return Finding(Outcome.WARN, detail=detail, remedy=remedy, source=BEST) if detail else None


# In this order: what is found first may be why the others are.
FINDINGS: tuple[Callable[[Ways], Finding | None], ...] = (
    of_meeting,
    of_firewall,
    of_name,
    of_packets,
    of_choice,
    of_port,
    of_traffic,
    of_clock,
    of_warnings,
)


CRITERIA = (route,)


def tables(recording: Recording) -> Iterator[StageTable]:
    """The ways between the nodes, one row each; and what the libraries' traffic took."""
    kinds = {(one.subject, one.name): one.kind for one in recording.of(LanInterface)}
    rows = [
        (
            *(one.subject, one.to, one.interface, kinds.get((one.subject, one.interface), NO_RATE)),
            *(one.to_interface, one.network, one.outcome),
            NO_RATE if one.mbps is None else figure(one.mbps),
            f"{one.passed} of {one.full}" if one.passed else NO_RATE,
        )
        for one in recording.of(LanProbe)
    ]
    yield StageTable(
        section="LAN",
        title="Ways between the nodes",
        columns=(
            *("From", "to", "interface", "kind", "interface there", "network", "connection"),
            *("Mbit/s", "largest packet, bytes"),
        ),
        rows=tuple(rows),
        labels=7,
        note="Bursts of an eighth of a second, the faster of two; packets that may not be fragmented.",
    )
    yield StageTable(
        section="LAN",
        title="What the libraries' bytes took",
        columns=("Node", "by", "arm", "outcome", "of the bytes sent"),
        rows=tuple(
            (
                *(one.subject, one.by, f"{one.arm} {one.interface}".strip(), one.outcome),
                ", ".join(f"{name} {share_of(one, name)}" for name in one.names.split()),
            )
            for one in recording.of(LanArm)
        ),
        labels=5,
        note="Bytes that each interface sent while gloo or NCCL reduced, or Ray sent an object.",
    )
