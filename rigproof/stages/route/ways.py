"""What is known of one node's ways to the others: interfaces, what libraries take, and what was probed."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_interface
from math import isfinite
from statistics import median

from rigproof.criteria.criterion import NotApplicable, NotMeasured
from rigproof.criteria.evidence.nodes import NodeEvidence
from rigproof.records.grouping import grouped
from rigproof.records.recording import Recording
from rigproof.records.verdict import figure
from rigproof.stages.route.choice import GOOD, ROUTED, Speed
from rigproof.stages.route.stage import (
    AS_IT_IS,
    GLOO,
    KIND,
    PINNED,
    STAGE,
    Arm,
    LanArm,
    LanInterface,
    LanNode,
    LanProbe,
    Library,
)

FASTER_FACTOR = KIND.key(lambda own: own.faster_factor)
EATEN = {"no answer": "were not answered", "refused": "were refused", "unreachable": "were rejected"}
IN_WORDS = {
    "ethernet": "a cable",
    "infiniband": "InfiniBand",
    "wifi": "Wi-Fi",
    "bridge": "a bridge of containers",
    "vpn": "a VPN",
    "loopback": "loopback",
}
CARRIED_SHARE = 0.8  # of what was sent; an interface that counted so much may have carried it
OTHERS_SHARE = 0.2  # of the same, which another one carried if the best one did not carry all
BOTH = "{GLOO,NCCL}_SOCKET_IFNAME"  # as bash and zsh read it; long names of interfaces leave no room for two


@dataclass(frozen=True)
class Ways:
    """One node's ways. Properties raise NotMeasured and NotApplicable."""

    node: NodeEvidence

    @property
    def name(self) -> str:
        return self.node.subject

    @cached_property
    def own(self) -> LanNode:
        if not self.node.devices:
            raise NotApplicable("no device of the rig is on this node")
        self.node.require_found()
        addresses = set(map(self.address, (self.name, *self.others)))
        if not self.node.evidence.recording.run.simulated and self.others and len(addresses) == 1:
            raise NotApplicable("the nodes are one machine: there is no LAN between them")
        return self.node.record(LanNode, STAGE, "it did not look for its ways to the others")

    @cached_property
    def others(self) -> Sequence[str]:
        """The other nodes with devices that were found."""
        every = self.node.evidence.nodes
        return [one.subject for one in every if one.devices and one.found and one.subject != self.name]

    def other(self, name: str) -> LanNode | None:
        """What another node has."""
        found = self.node.evidence.records(LanNode, name)
        return found[-1] if found else None

    def told(self) -> Iterator[LanNode]:
        """What the other nodes have, of those that told."""
        yield from (one for name in self.others if (one := self.other(name)) is not None)

    def address(self, name: str) -> str:
        """The address that Ray has of a node; of a simulated one that it is said to have."""
        identity, its = self.node.evidence.recording.nodes.get(name), self.other(name)
        simulated = self.node.evidence.recording.run.simulated
        return its.ray if simulated and its is not None else identity.address if identity is not None else ""

    @cached_property
    def interfaces(self) -> Mapping[str, LanInterface]:
        return {one.name: one for one in self.node.evidence.records(LanInterface, self.name)}

    @cached_property
    def best(self) -> LanInterface | None:
        """The interface of the best way, if there is one."""
        return self.interfaces.get(self.own.best)

    @cached_property
    def out(self) -> Sequence[LanProbe]:
        """What this node probed."""
        return self.node.evidence.records(LanProbe, self.name)

    @cached_property
    def back(self) -> Sequence[LanProbe]:
        """What others probed of this node."""
        evidence = self.node.evidence
        every = evidence.cached(("probes", STAGE), lambda: _by_target(evidence.recording))
        found: Sequence[LanProbe] = every.get(self.name, ())
        return found

    # What libraries take, and whether that is the best way.

    @cached_property
    def stated(self) -> Mapping[str, str]:
        """The variables that decide what libraries take."""
        return dict(one.partition("=")[::2] for one in self.own.variables.split())

    @cached_property
    def taken(self) -> Mapping[Library, str]:
        """The interface that each library takes; empty if no interface has its address.

        By the bytes that it sent as it is, where they were counted; else as its address or its rules say.
        Without NCCL where its bytes went past what interfaces count, as those of RDMA do.
        """
        takes: dict[Library, str] = {"gloo": self._took("gloo", [self._interface_of(self.own.gloo)])}
        if self.node.cards and not self.past("NCCL"):
            takes["NCCL"] = self._took("NCCL", self.own.nccl.split())
        takes["Ray"] = self._took("Ray", [self._interface_of(self.address(self.name))])
        return takes

    def _took(self, library: Library, predicted: Sequence[str]) -> str:
        carried = self._carried(library, AS_IT_IS)
        if sum(carried.values()) < CARRIED_SHARE:
            return next(iter(predicted), "")
        best = self.own.best
        sent, below = carried.pop(best, 0.0), self._below("gloo", best) | self._below(library, best)
        if sent >= CARRIED_SHARE:  # another one only if it lies above, as a VPN does, and Wi-Fi never does
            others = [name for name in carried if name in predicted and carried[name] >= CARRIED_SHARE]
            others = [name for name in others if self._kind(name) != "wifi"]
        else:
            others = [name for name in carried if carried[name] >= OTHERS_SHARE]
        if found := [name for name in others if name not in below]:
            return max(found, key=lambda name: carried[name])
        return best if sent >= CARRIED_SHARE else next(iter(predicted), "")

    def _below(self, library: Library, best: str) -> frozenset[str]:
        """What counts as many bytes while a library is pinned to the best interface and takes it.

        It carries them, too, as a card below a VLAN does, or has others' traffic.
        """
        pinned = self._carried(library, PINNED)
        own = pinned.pop(best, 0.0) >= CARRIED_SHARE
        return frozenset(name for name, share in pinned.items() if own and share >= OTHERS_SHARE)

    def _carried(self, library: Library, name: Arm) -> dict[str, float]:
        """What each interface sent of a library's bytes, 1 for all of them; none if it was not done."""
        arm = self.arm(library, name)
        if arm is None or arm.outcome != "done" or not arm.payload_mb:
            return {}
        sent = zip(arm.names.split(), arm.shares or (), strict=False)
        return {one: share * arm.sent_mb / arm.payload_mb for one, share in sent}

    def past(self, library: Library) -> bool:
        """Whether what a library sent as it is was not counted at any interface."""
        arm, carried = self.arm(library, AS_IT_IS), self._carried(library, AS_IT_IS)
        return arm is not None and arm.outcome == "done" and sum(carried.values()) < CARRIED_SHARE

    def _interface_of(self, address: str) -> str:
        for one in self.interfaces.values():
            if any(text.partition("/")[0] == address for text in one.addresses.split()):
                return one.name
        return ""

    def _kind(self, interface: str) -> str:
        own = self.interfaces.get(interface)
        return own.kind if own is not None else ""

    @cached_property
    def used(self) -> frozenset[str]:
        """The interfaces that matter."""
        return frozenset(filter(None, (*self.taken.values(), self.own.best)))

    @cached_property
    def used_out(self) -> Sequence[LanProbe]:
        """What it probed between interfaces that matter at both ends, as far as that is known."""
        there = {}
        for name in {one.to for one in self.out}:
            with suppress(NotMeasured, NotApplicable):
                there[name] = Ways(self.node.evidence.node(name)).used
        own = [one for one in self.out if one.interface in self.used]
        return [one for one in own if one.to_interface in (there.get(one.to) or {one.to_interface})]

    def worse(self, name: str) -> str:
        """Why an interface is worse than the best one, in words; empty if it is not."""
        own, best = self.interfaces.get(name), self.interfaces[self.own.best]
        if own is None:
            return "none of this node's"
        rate, best_rate = self.mbps(name), self.mbps(best.name)
        if rate is None:
            return f"{IN_WORDS[own.kind]} that leads to no other node"
        if own.kind not in GOOD and best.kind in GOOD:
            return IN_WORDS[own.kind]
        equal = own.speed_mbps is not None and own.speed_mbps == best.speed_mbps
        factor = self.node.limit(FASTER_FACTOR).value * (2 if equal else 1)  # a port can still be held down
        if best_rate is not None and best_rate >= factor * rate:
            return f"{figure(rate)} Mbit/s beside {figure(best_rate)}"
        speed, its = self.speed(name), self.speed(best.name)
        if speed.outdone_by(its, factor):
            return f"a port of {speed.port} Mbit/s beside {its.port}"
        return ""

    def worse_for_nccl(self, name: str) -> bool:
        """Whether NCCL had better not use an interface beside the best one."""
        own = self.interfaces.get(name)
        return own is not None and (own.kind not in GOOD or bool(self.mbps(name) and self.worse(name)))

    def mbps(self, interface: str) -> float | None:
        """The fastest burst over an interface, either way; None if no way over it is open."""
        here = [one.mbps for one in self.out if one.interface == interface and one.outcome == "open"]
        there = [one.mbps for one in self.back if one.to_interface == interface and one.outcome == "open"]
        return max((one for one in (*here, *there) if one is not None), default=None)

    def speed(self, interface: str) -> Speed:
        """The fastest burst over an interface, and the least that the ports at both ends state."""
        ends = {(self.name, interface)}
        ends |= {(one.to, one.to_interface) for one in self.out if one.interface == interface and one.mbps}
        ends |= {
            (one.subject, one.interface) for one in self.back if one.to_interface == interface and one.mbps
        }
        every = [
            one.speed_mbps
            for node in {node for node, _ in ends}
            for one in self.node.evidence.records(LanInterface, node)
            if (node, one.name) in ends
        ]
        ports = [one for one in every if one is not None]
        return Speed(self.mbps(interface) or 0.0, min(ports) if ports and len(ports) == len(every) else None)

    def arm(self, library: Library, name: Arm) -> LanArm | None:
        """An exchange by a library."""
        arms = self.node.evidence.records(LanArm, self.name)
        return next((one for one in arms if (one.by, one.arm) == (library, name)), None)

    def others_tried(self, library: Library) -> bool:
        """Whether other nodes exchanged by that library, or tried to."""
        arms = (self.node.evidence.records(LanArm, name) for name in self.others)
        return any(one.by == library for its in arms for one in its)

    def moved(self, library: Library, name: str, *, pinned: bool) -> str:
        """What a library's bytes take, by itself and `pinned`, in words; empty if they were not counted."""
        arm, other = self.arm(library, AS_IT_IS), self.arm(library, PINNED)
        if arm is None or sum(self._carried(library, AS_IT_IS).values()) < CARRIED_SHARE:
            return ""
        text = f"{library} sends {share_of(arm, name)} of its bytes over {name} ({self.worse(name)})"
        if pinned and other is not None and other.outcome == "done":
            text += f"; told to use {self.own.best}, {share_of(other, self.own.best)} over it"
        return text

    def stays(self, library: Library) -> bool:
        """Whether a library's bytes do not take the best interface although they are pinned to it."""
        pinned = self._carried(library, PINNED)
        return bool(pinned) and pinned.get(self.own.best, 0.0) < OTHERS_SHARE

    @cached_property
    def by_ipv6_alone(self) -> Sequence[str]:
        """The nodes with which it has networks of IPv6 in common, and none of IPv4, which gloo takes here."""
        networks = grouped((one for one in self.out if one.network != ROUTED), lambda one: one.to)
        alone = [to for to, own in networks.items() if all(":" in one.network for one in own)]
        return alone if "." in self.own.gloo else []

    def export(self, variable: str, restart: str = "restart Ray (`cluster down`, `up`)") -> str:
        """What to export on which node: one value fits all only where the interfaces have one name.

        In a file that login shells read, since `rigproof cluster up` starts Ray in one of each node.
        """
        values = {one.subject: one.best for one in (self.own, *self.told()) if one.best}
        if self.name not in values:
            return f"set it in ~/.bashrc to the interface that `ip address` shows for the LAN, then {restart}"
        others = {name: best for name, best in values.items() if best != values[self.name]}
        unlike = "".join(f", ={best} on {name}" for name, best in list(others.items())[:2])
        where = f"on {self.name}{unlike}" if others else "on every node"
        return f"put `export {variable}={values[self.name]}` into ~/.bashrc {where}, then {restart}"

    @property
    def best_address(self) -> str:
        """The address that this node has on the best way."""
        own = [one for one in self.out if one.interface == self.own.best]
        own.sort(key=lambda one: one.network != self.own.network)  # of racks each has one of its own
        return own[0].source if own else f"the address of {self.own.best}"

    @property
    def closed_cable(self) -> LanProbe | None:
        """A way by cables in a network that both ends are in, and that is not open."""
        cables = {
            (node, one.name)
            for node in (self.name, *self.others)
            for one in self.node.evidence.records(LanInterface, node)
            if one.kind in GOOD
        }
        for one in self.out:
            ends = {(self.name, one.interface), (one.to, one.to_interface)}
            if one.outcome != "open" and one.network != ROUTED and ends <= cables:
                return one
        return None

    @property
    def variable(self) -> str:
        """What pins whatever trains here."""
        return BOTH if self.node.cards else GLOO

    # Who answers.

    def kept_out(self, probes: Sequence[LanProbe]) -> list[LanProbe]:
        """Ways between the addresses of Ray that are closed, while none to that node is open."""
        open_to = {(one.subject, one.to) for one in probes if one.outcome in ("open", "stalled")}
        closed = [one for one in probes if one.outcome in EATEN and (one.subject, one.to) not in open_to]
        return [one for one in closed if one.target == self.address(one.to)]

    def kept_out_of_others(self, name: str) -> bool:
        """Whether nobody answers that node."""
        return all(one.outcome in EATEN for one in self.node.evidence.records(LanProbe, name))

    @property
    def ray_network(self) -> str:
        """The network of the address that Ray has; the address if there is none."""
        address = self.address(self.name)
        with suppress(ValueError):  # of a damaged record
            for text in (text for one in self.interfaces.values() for text in one.addresses.split()):
                if text.startswith(f"{address}/"):
                    return str(ip_interface(text).network)
        return address

    # Clocks.

    @cached_property
    def ahead_s(self) -> float | None:
        """Of the other node's clock, of several of the median of all; None if it is not known."""
        others = [one.ahead_s for one in self.told() if one.ahead_s is not None and isfinite(one.ahead_s)]
        own_s = self.own.ahead_s
        if not others or own_s is None or not isfinite(own_s):
            return None
        return own_s - median(others if len(others) == 1 else [*others, own_s])

    @property
    def clock(self) -> str:
        """`3 ms ahead of that of pc2`; `ahead_s` is known."""
        assert self.ahead_s is not None
        seconds = abs(self.ahead_s)
        text = f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.{1 if seconds < 100 else 0}f} s"
        others = f"that of {self.others[0]}" if len(self.others) == 1 else "those of the others"
        return f"{text} {'ahead of' if self.ahead_s >= 0 else 'behind'} {others}"

    def in_words(self) -> str:
        """What was found of a node without a fault. NotMeasured if its best way was not probed."""
        best = self.best
        if best is None:
            raise NotMeasured("no way to another node is open")
        open_ways = [one for one in self.out if one.interface == best.name and one.outcome == "open"]
        to = ", ".join(dict.fromkeys(one.to for one in open_ways))
        if not to or not any(one.to_interface == best.name and one.outcome == "open" for one in self.back):
            raise NotMeasured(f"no way over {best.name} was probed in both directions")
        over: list[str] = [name for name, at in self.taken.items() if at == best.name]
        *first, last = over or ["no library"]
        takes = f"{', '.join(first)} and {last}" if first else last
        speed = f"{best.speed_mbps} Mbit/s, " if best.speed_mbps else ""
        passed = min(one.passed for one in open_ways)
        size = f"packets of {passed} bytes arrive" if passed else "UDP is not answered, TCP is"
        there = {its.best for one in open_ways if (its := self.other(one.to)) is not None}
        unlike = sorted(there - {best.name, ""})
        names = f" ({', '.join(unlike)} there: no one {GLOO} fits both)" if unlike else ""
        direct = {one.to for one in open_ways if one.network != ROUTED}
        routed = ", ".join(dict.fromkeys(one.to for one in open_ways if one.to not in direct))
        apart = f"; routed to {routed}: no network in common" if routed else ""
        if self.by_ipv6_alone:
            apart += f"; only IPv6 is in common with {', '.join(self.by_ipv6_alone)}: gloo's IPv4 is routed"
        clock = "" if self.ahead_s is None else f"; clock {self.clock}"
        return f"{takes} over {best.name} to {to}{names}: {speed}{size}{apart}{self._nccl}{clock}"

    @property
    def _nccl(self) -> str:
        """How little was seen of NCCL, in words; empty if it was tried, or nobody needs it."""
        arm = self.arm("NCCL", AS_IT_IS)
        if not self.node.cards:
            return ""
        if arm is None or arm.outcome == "left out":
            return "; NCCL not tried" + (f": {arm.message}" if arm is not None else "")
        return "; NCCL's bytes went past the interfaces" if self.past("NCCL") else ""


def share_of(arm: LanArm, name: str) -> str:
    """The part of the bytes that an interface sent."""
    share = dict(zip(arm.names.split(), arm.shares or (), strict=False)).get(name, 0.0)
    return f"{100 * share:.0f} %"


def _by_target(recording: Recording) -> dict[str, list[LanProbe]]:
    return grouped(recording.of(LanProbe), lambda one: one.to)
