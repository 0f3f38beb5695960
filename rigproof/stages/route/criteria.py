"""Do gloo, NCCL and Ray take the best way between the nodes, and does it carry what they send?"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_interface
from math import isfinite
from statistics import median

from rigproof.criteria.criterion import Criterion, Finding, NotApplicable, NotMeasured
from rigproof.criteria.evidence.nodes import NodeEvidence
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, figure
from rigproof.stages.route.choice import GOOD, ROUTED, is_loopback
from rigproof.stages.route.stage import (
    AS_IT_IS,
    GLOO,
    KIND,
    NCCL,
    PINNED,
    STAGE,
    LanArm,
    LanInterface,
    LanNode,
    LanProbe,
)
from rigproof.stages.tables import NO_RATE, StageTable

FASTER_FACTOR = KIND.key(lambda own: own.faster_factor)
LEAST_MBPS = KIND.key(lambda own: own.least_mbps)
CLOCK_WARN_S = KIND.key(lambda own: own.clock_warn_s)

EATEN = {"no answer": "were not answered", "refused": "were refused", "unreachable": "were rejected"}
IN_WORDS = {
    "ethernet": "a cable",
    "infiniband": "InfiniBand",
    "wifi": "Wi-Fi",
    "bridge": "a bridge of containers",
    "vpn": "a VPN",
    "loopback": "loopback",
}
CARRIED_SHARE = 0.8  # of what was reduced; an interface that sent so much may have carried it
BEST = "the best way between the nodes"


@Criterion(
    "lan.route",
    title="ways between nodes",
    scope="node",
    limit="each node's own name leads to it from outside; gloo, NCCL (where there are GPUs) and Ray take a "
    "way that no other one between the same nodes beats (a cable beats Wi-Fi, VPN and a bridge of "
    "containers; of two cables one `stages.route.faster_factor` times as fast), at no less than "
    "`stages.route.least_mbps` and full duplex; connections to any port are answered, packets of the full "
    "size arrive, and an all-reduce by gloo is right. Clocks that differ by more than "
    "`stages.route.clock_warn_s` warn",
    limits=(FASTER_FACTOR, LEAST_MBPS, CLOCK_WARN_S),
    severity="config",
    remedy="look at the table of ways in the report, and run `ip address` and `ip route` on this host",
    unmeasured="its worker did not end, the nodes did not meet, or no way between them was probed",
    stages=(STAGE,),
)
def route(node: NodeEvidence) -> Finding:
    """What the node has for traffic with the others, what libraries take of it, and what that carries.

    Each node probes two neighbours, and reduces with one or two: a way that only other pairs use is not seen.
    """
    found = Ways(node)
    for judged in (
        found.of_meeting,
        found.of_firewall,
        found.of_name,
        found.of_packets,
        found.of_choice,
        found.of_traffic,
        found.of_port,
        found.of_clock,
        found.of_warnings,
    ):
        if (finding := judged()) is not None:
            return finding
    return Finding(Outcome.PASS, detail=found.in_words(), source=BEST)


@dataclass(frozen=True)
class Ways:
    """The judgements about one node, each None if it finds nothing. Raises NotMeasured."""

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

    @cached_property
    def interfaces(self) -> Mapping[str, LanInterface]:
        return {one.name: one for one in self.node.evidence.records(LanInterface, self.name)}

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

    def other(self, name: str) -> LanNode | None:
        """What another node has."""
        found = self.node.evidence.records(LanNode, name)
        return found[-1] if found else None

    def address(self, name: str) -> str:
        """The address that Ray has of a node; of a simulated one that it is said to have."""
        identity, its = self.node.evidence.recording.nodes.get(name), self.other(name)
        simulated = self.node.evidence.recording.run.simulated
        return its.ray if simulated and its is not None else identity.address if identity is not None else ""

    def arm(self, name: str) -> LanArm | None:
        return next((one for one in self.node.evidence.records(LanArm, self.name) if one.arm == name), None)

    # Whether they met, and may talk.

    def of_meeting(self) -> Finding | None:
        """Nodes that could not reach the one that all meet at."""
        own = self.own
        if own.missing:
            told = {
                name: one.trouble for name in own.missing.split() if (one := self.other(name)) is not None
            }
            kept_out = [name for name, trouble in told.items() if trouble in EATEN and trouble != "refused"]
            if kept_out and len(kept_out) == len(self.others):
                return self._firewall(kept_out[0], str(told[kept_out[0]]))
            if len(own.missing.split()) == len(self.others):
                raise NotMeasured(f"{own.missing.replace(' ', ', ')} did not come to meet it")
        if own.trouble is None:
            return None
        at = self.other(own.meets_at)
        others = [
            one for name in self.others if name != own.meets_at and (one := self.other(name)) is not None
        ]
        met = [one for one in others if one.trouble is None]
        if own.trouble in ("no answer", "unreachable") and met and at is not None:
            return self._firewall(own.meets_at, own.trouble, outgoing=True)
        what = EATEN.get(own.trouble, "were not answered in time")
        raise NotMeasured(f"its connections to {own.meets_at}, where all nodes meet, {what}")

    def of_firewall(self) -> Finding | None:
        """Ports that do not answer at the address that Ray has: there the nodes reach each other."""
        kept_out = self._kept_out(self.back)
        if not self.out and not self.back:
            raise NotMeasured("no way between it and another node was probed")
        if kept_out:
            kept_out_of_others = self._kept_out_of_others(kept_out[0].subject)
            others_come = any(
                one.outcome == "open" for one in self.back if one.subject != kept_out[0].subject
            )
            if not (others_come and kept_out_of_others):
                return self._firewall(kept_out[0].subject, kept_out[0].outcome)
        for probe in self._kept_out(self.out):
            if self._kept_out_of_others(self.name) and len({one.to for one in self.out}) > 1:
                return self._firewall(probe.to, probe.outcome, outgoing=True)
            raise NotMeasured(f"{probe.to} lets no connection in: see lan.route of {probe.to}")
        return None

    def _kept_out(self, probes: Sequence[LanProbe]) -> list[LanProbe]:
        """Ways between the addresses of Ray that are closed, while none to that node is open."""
        open_to = {(one.subject, one.to) for one in probes if one.outcome in ("open", "stalled")}
        closed = [one for one in probes if one.outcome in EATEN and (one.subject, one.to) not in open_to]
        return [one for one in closed if one.target == self.address(one.to)]

    def _kept_out_of_others(self, name: str) -> bool:
        """Whether nobody answers this node."""
        return all(one.outcome in EATEN for one in self.node.evidence.records(LanProbe, name))

    def _firewall(self, other: str, outcome: str, *, outgoing: bool = False) -> Finding:
        network = self._ray_network()
        what, allow = EATEN[outcome], f"from {network}"
        detail = f"connections from {other} to ports that gloo and NCCL choose {what}: a firewall"
        if outgoing:
            detail, allow = (
                f"its connections to {other} {what}: a firewall on its way out",
                f"out to {network}",
            )
        remedy = f"run `sudo ufw allow {allow}` on {self.name}, or put it into firewalld's zone `trusted`"
        return Finding(Outcome.FAIL, detail=detail, remedy=remedy, source="every port answers")

    def _ray_network(self) -> str:
        address = self.address(self.name)
        with suppress(ValueError):  # of a damaged record
            for text in (text for one in self.interfaces.values() for text in one.addresses.split()):
                if text.startswith(f"{address}/"):
                    return str(ip_interface(text).network)
        return address

    # What the libraries take.

    def of_name(self) -> Finding | None:
        """A name that leads gloo to loopback, or an interface that is not there."""
        own, best = self.own, self.own.best or "eth0"
        stated = dict(one.partition("=")[::2] for one in own.variables.split())
        source = "an address that the other nodes reach"
        if not own.gloo:
            detail = f"{GLOO}={stated.get(GLOO, '')} names no interface with an address here"
            return Finding(Outcome.FAIL, detail=detail, remedy=self._export(GLOO), source=source)
        if self.node.cards and not own.nccl:
            detail = f"{NCCL}={stated.get(NCCL, '')} names no interface with an address here"
            return Finding(Outcome.FAIL, detail=detail, remedy=self._export(NCCL), source=source)
        if not is_loopback(own.gloo):
            return None
        name, address = own.hostname, self.address(self.name)
        says = f"is {own.resolves.split()[0]}" if own.resolves else "cannot be looked up"
        detail = f"its own name {name} {says} here: gloo waits on {own.gloo}, where no other node reaches it"
        instead = f" in place of the line with {own.resolves.split()[0]}" if own.resolves else ""
        remedy = f"set `{address} {name}` in /etc/hosts on {self.name}{instead}, or `export {GLOO}={best}`"
        return Finding(Outcome.FAIL, detail=detail, remedy=remedy, source=source)

    @cached_property
    def taken(self) -> Mapping[str, str]:
        """The interface that each library takes, by its name; empty if no interface has the address."""
        own, takes = self.own, {}
        takes["gloo"] = self._interface_of(own.gloo)
        if self.node.cards:
            takes["NCCL"] = own.nccl.partition(" ")[0]
        takes["Ray"] = self._interface_of(self.address(self.name))
        return takes

    def _interface_of(self, address: str) -> str:
        for one in self.interfaces.values():
            if any(text.partition("/")[0] == address for text in one.addresses.split()):
                return one.name
        return ""

    @cached_property
    def used(self) -> frozenset[str]:
        """The interfaces that matter."""
        return frozenset(filter(None, (*self.taken.values(), self.own.best)))

    def of_packets(self) -> Finding | None:
        """Packets of the full size that get lost while small ones arrive."""
        for one in self.out:
            if one.interface not in self.used or one.outcome not in ("open", "stalled"):
                continue
            source = "packets of the interface's MTU arrive"
            if 0 < one.passed < one.full:
                detail = (
                    f"packets of {one.full} bytes from {one.interface} get lost on their way to {one.to}, "
                    f"those of {one.passed} arrive: a port between, or at its end, carries no more"
                )
                remedy = (
                    f"run `sudo ip link set dev {one.interface} mtu {one.passed}` on {self.name}, or let the "
                    f"switch and {one.to} carry {one.full}"
                )
                return Finding(Outcome.FAIL, detail=detail, remedy=remedy, source=source)
            if one.outcome == "stalled":
                detail = f"what was sent from {one.interface} to {one.to} stalled after the first bytes"
                remedy = f"run `ping -M do -s 1472 {one.target}` on {self.name}, and look at MTU and cable"
                return Finding(Outcome.FAIL, detail=detail, remedy=remedy, source=source)
        if wrong := self.node.unverified(STAGE):
            detail = f"bytes arrived otherwise than they were sent over {wrong.labels('over')[0]}"
            remedy = "do not train over it: replace cable and card, or `ethtool -K` its offloads off"
            return Finding(
                Outcome.FAIL, detail=detail, remedy=remedy, source="bytes arrive as they were sent"
            )
        return None

    def of_choice(self) -> Finding | None:
        """A worse way than the best one."""
        best = self.own.best
        if not best or best not in self.interfaces:
            return None
        for library, name in self.taken.items():
            if name != best and (why := self.worse(name)) and not self._went_over_best(library):
                return self._wrong(library, name, why)
        return None

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
        return ""

    def mbps(self, interface: str) -> float | None:
        """The fastest burst over an interface, either way; None if no way over it is open."""
        here = [one.mbps for one in self.out if one.interface == interface and one.outcome == "open"]
        there = [one.mbps for one in self.back if one.to_interface == interface and one.outcome == "open"]
        return max((one for one in (*here, *there) if one is not None), default=None)

    def _went_over_best(self, library: str) -> bool:
        """Whether gloo's bytes took the best interface, whatever its address: the kernel's routes decide."""
        arm = self.arm(AS_IT_IS)
        return library == "gloo" and arm is not None and carriers(arm) == [self.own.best]

    def _wrong(self, library: str, name: str, why: str) -> Finding:
        best = self.own.best
        detail = f"{library} takes {name or 'an address'}, {why}, and {best} joins the same nodes"
        arm = self.arm(AS_IT_IS)
        if library == "gloo" and arm is not None and arm.outcome == "done":
            pinned = self.arm(PINNED)
            moved = f"as it is {_share_of(arm, name)} of gloo's bytes went over {name}"
            if pinned is not None and pinned.outcome == "done":
                moved += f", pinned {_share_of(pinned, best)} over {best}"
            detail = f"{moved}; {name} is {why}"
        if library == "Ray":
            remedy = f"restart Ray on {self.name} with `--node-ip-address` of {best}"
        else:
            remedy = self._export(*((GLOO, NCCL) if self.node.cards else (GLOO,)))
        return Finding(Outcome.FAIL, detail=detail, remedy=remedy, source=BEST)

    def _export(self, *variables: str) -> str:
        """What to export on which node: one value fits all only where the interfaces have one name."""
        every = [one for name in (self.name, *self.others) if (one := self.other(name)) is not None]
        values = {one.subject: one.best for one in every if one.best}
        if self.name not in values:
            return "set it to the interface that `ip address` shows for the LAN, before `ray start`"
        exports = " ".join(f"{name}={values[self.name]}" for name in variables)
        others = {name: best for name, best in values.items() if best != values[self.name]}
        unlike = "".join(f", ={best} on {name}" for name, best in list(others.items())[:2])
        where = f"on {self.name}{unlike}" if others else "on every node"
        return f"run `export {exports}` {where}, before `ray start`"

    # What they do with it.

    def of_traffic(self) -> Finding | None:
        """What gloo did as it is, and pinned."""
        own, pinned = self.arm(AS_IT_IS), self.arm(PINNED)
        source = "an all-reduce by gloo is right"
        for one in (own, pinned):
            if one is not None and one.outcome == "wrong":
                detail = f"gloo's all-reduce, {one.arm}, gave a wrong answer"
                return Finding(Outcome.FAIL, detail=detail, remedy="do not train on it", source=source)
        for arm, one in ((AS_IT_IS, own), (PINNED, pinned)):
            if one is None or one.outcome == "broken":
                why = "" if one is None else one.message
                raise NotMeasured(f"gloo was not tried {arm}", why or self._why_not_tried())
        assert own is not None
        assert pinned is not None
        if own.outcome == "done":
            if pinned.outcome == "done":
                return None
            detail = f"gloo works as it is, and not pinned to {pinned.interface} ({_short(pinned.message)})"
            return Finding(Outcome.WARN, detail=detail, source=source)
        family = {one.to for one in self.out if self._other_family(one.to)}
        if family:
            other = sorted(family)[0]
            its = self.other(other)
            there = its.gloo if its else ""
            detail = f"gloo takes {self.own.gloo} here and {there} on {other}: it joins no two families"
            return Finding(Outcome.FAIL, detail=detail, remedy=self._export(GLOO), source=source)
        if pinned.outcome == "done":
            detail = f"gloo fails as it is ({_short(own.message)}), and not pinned to {pinned.interface}"
            return Finding(Outcome.FAIL, detail=detail, remedy=self._export(GLOO), source=source)
        if cause := self._why_not_tried():
            raise NotMeasured(f"gloo does not get through: {cause}")
        if "hung" in (own.outcome, pinned.outcome):  # as on a host whose CPUs others have
            raise NotMeasured(f"gloo did not end in time, as it is and pinned: {_short(own.message)}")
        detail = f"gloo does not get through, as it is and pinned: {_short(own.message)}"
        return Finding(Outcome.FAIL, detail=detail, source=source)

    def _other_family(self, other: str) -> bool:
        its = self.other(other)
        return its is not None and bool(its.gloo) and (":" in its.gloo) != (":" in self.own.gloo)

    def _why_not_tried(self) -> str:
        """Which neighbour's fault keeps gloo from it; empty if none does."""
        return next(filter(None, map(self._kept_by, sorted({probe.to for probe in self.out}))), "")

    def _kept_by(self, other: str) -> str:
        """Why this node's gloo fails by another node's fault; empty if that has none."""
        its = Ways(self.node.evidence.node(other))
        try:
            named = its.of_firewall() or its.of_name() or its.of_packets()
        except NotMeasured:
            return ""
        return f"see lan.route of {other}" if named is not None else ""

    def of_port(self) -> Finding | None:
        """Half duplex, and cables that have fallen back."""
        least = self.node.limit(LEAST_MBPS)
        for one in (self.interfaces[name] for name in sorted(self.used) if name in self.interfaces):
            if one.kind != "ethernet":
                continue
            if one.full_duplex is False:
                detail, source = f"{one.name} is at half duplex", "full duplex"
            elif one.speed_mbps is not None and one.speed_mbps < least.value:
                detail = f"{one.name} runs at {one.speed_mbps} Mbit/s, limit ≥ {least.value:g} Mbit/s"
                source = least.source
            else:
                continue
            remedy = f"swap the cable of {one.name} on {self.name}, and look at `ethtool {one.name}`"
            return Finding(Outcome.FAIL, detail=detail, remedy=remedy, source=source)
        return None

    def of_clock(self) -> Finding | None:
        """A wall clock that differs from those of the others."""
        ahead_s = self.ahead_s
        most = self.node.limit(CLOCK_WARN_S)
        if ahead_s is None or abs(ahead_s) - (self.own.ahead_error_s or 0.0) <= most.value:
            return None
        detail = f"its clock is {_clock(ahead_s)} {self._others_clocks} (limit {most.value:g} s)"
        remedy = f"run `timedatectl set-ntp true` on {self.name}: logs, TLS and checkpoints go by it"
        return Finding(Outcome.WARN, detail=detail, remedy=remedy, source=most.source)

    @cached_property
    def ahead_s(self) -> float | None:
        """Of the other nodes' clocks, by their median; None if it is not known."""
        told = [one.ahead_s for name in self.others if (one := self.other(name)) is not None]
        others = [one for one in told if one is not None and isfinite(one)]
        own_s = self.own.ahead_s
        return own_s - median(others) if others and own_s is not None and isfinite(own_s) else None

    @property
    def _others_clocks(self) -> str:
        return f"that of {self.others[0]}" if len(self.others) == 1 else "those of the others"

    def of_warnings(self) -> Finding | None:
        """What works, and could be better."""
        best = self.interfaces.get(self.own.best)
        if best is None:
            return None
        if best.kind not in GOOD:
            detail = f"the nodes are joined by {IN_WORDS[best.kind]} ({best.name}) alone"
            return Finding(Outcome.WARN, detail=detail, remedy="join them by a cable", source=BEST)
        also = [name for name in self.own.nccl.split() if name != best.name and self._worse_for_nccl(name)]
        if self.node.cards and also:
            detail = f"NCCL may also use {', '.join(also)}, beside {best.name}"
            return Finding(Outcome.WARN, detail=detail, remedy=self._export(NCCL), source=BEST)
        speeds = {
            one.to: its.speed_mbps
            for one in self.out
            if one.interface == best.name
            for its in self.node.evidence.records(LanInterface, one.to)
            if its.name == one.to_interface and its.speed_mbps and its.kind == "ethernet"
        }
        faster = [to for to, speed in speeds.items() if best.speed_mbps and speed > best.speed_mbps]
        if faster:
            detail = f"{best.name} runs at {best.speed_mbps} Mbit/s, {faster[0]} at {speeds[faster[0]]}"
            remedy = f"look at cable and port of {self.name}: all wait for the slowest"
            return Finding(Outcome.WARN, detail=detail, remedy=remedy, source=BEST)
        return None

    def _worse_for_nccl(self, name: str) -> bool:
        own = self.interfaces.get(name)
        return own is not None and (own.kind not in GOOD or bool(self.mbps(name) and self.worse(name)))

    def in_words(self) -> str:
        """What was found of a node without a fault."""
        best = self.interfaces.get(self.own.best)
        if best is None:
            raise NotMeasured("no way to another node is open")
        open_ways = [one for one in self.out if one.interface == best.name and one.outcome == "open"]
        to = ", ".join(dict.fromkeys(one.to for one in open_ways))
        if not to or not any(one.to_interface == best.name and one.outcome == "open" for one in self.back):
            raise NotMeasured(f"no way over {best.name} was probed in both directions")
        every = self.taken.items()
        *first, last = [name for name, at in every if at == best.name or self._went_over_best(name)] or [
            "no library"
        ]
        takes = f"{', '.join(first)} and {last}" if first else last
        speed = f"{best.speed_mbps} Mbit/s, " if best.speed_mbps else ""
        passed = min(one.passed for one in open_ways)
        size = f"packets of {passed} bytes arrive" if passed else "UDP is not answered, TCP is"
        there = {its.best for one in open_ways if (its := self.other(one.to)) is not None}
        unlike = sorted(there - {best.name, ""})
        names = f" ({', '.join(unlike)} there: no one {GLOO} fits both)" if unlike else ""
        clock = "" if self.ahead_s is None else f"; clock {_clock(self.ahead_s)} {self._others_clocks}"
        return f"{takes} over {best.name} to {to}{names}: {speed}{size}{clock}"


def carriers(arm: LanArm) -> list[str]:
    """The interfaces that sent at least what was reduced; of those that carry each other, all."""
    sent = zip(arm.names.split(), arm.shares or (), strict=False)
    return [name for name, share in sent if share * arm.sent_mb >= CARRIED_SHARE * arm.payload_mb]


def _short(message: str) -> str:
    """What gloo says, without the place in its source."""
    return (message.rpartition("] ")[2] or message)[:80]


def _share_of(arm: LanArm, name: str) -> str:
    share = dict(zip(arm.names.split(), arm.shares or (), strict=False)).get(name, 0.0)
    return f"{100 * share:.0f} %"


def _clock(ahead_s: float) -> str:
    seconds = abs(ahead_s)
    text = (
        f"{seconds * 1000:.0f} ms"
        if seconds < 1
        else f"{seconds:.1f} s"
        if seconds < 100
        else f"{seconds:.0f} s"
    )
    return f"{text} {'ahead of' if ahead_s >= 0 else 'behind'}"


def _by_target(recording: Recording) -> dict[str, list[LanProbe]]:
    found: dict[str, list[LanProbe]] = defaultdict(list)
    for one in recording.of(LanProbe):
        found[one.to].append(one)
    return found


CRITERIA = (route,)


def tables(recording: Recording) -> Iterator[StageTable]:
    """The ways between the nodes, one row each; and what gloo's traffic took."""
    kinds = {(one.subject, one.name): one.kind for one in recording.of(LanInterface)}
    rows = [
        (
            *(one.subject, one.to, one.interface, kinds.get((one.subject, one.interface), NO_RATE)),
            *(one.to_interface, "" if one.network == ROUTED else one.network, one.outcome),
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
        title="What gloo's bytes took",
        columns=("Node", "all-reduce", "outcome", "of the bytes sent"),
        rows=tuple(
            (
                *(one.subject, f"{one.arm} {one.interface}".strip(), one.outcome),
                ", ".join(f"{name} {_share_of(one, name)}" for name in one.names.split()),
            )
            for one in recording.of(LanArm)
        ),
        labels=4,
        note="Bytes that each interface sent while gloo reduced.",
    )
