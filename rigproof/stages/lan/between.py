"""What was measured between the two nodes of a pair, what their link carries, and what cards counted."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median

from rigproof.criteria.criterion import Disturbed, Limit, NotMeasured
from rigproof.criteria.evidence.clocks import within
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.nodes import NodeEvidence
from rigproof.criteria.evidence.rounds import FEWEST_ROUNDS
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.profiles.planning.subjects import subjects
from rigproof.profiles.tables.base import LimitKey
from rigproof.records.verdict import figure
from rigproof.stages.lan.stage import (
    ALL_REDUCE,
    ALONE,
    BACK,
    BITS,
    BOTH,
    BROADCAST,
    GLOO,
    KIND,
    LIBRARIES,
    NCCL,
    OUT,
    RAY,
    SEND,
    STAGE,
    TCP,
    TOGETHER,
    LanEnd,
    LanTraffic,
)

UNIT = "MB/s"
LINK_MBIT = KIND.key(lambda own: own.link_mbit)
LEAST_LINK_MBIT = KIND.key(lambda own: own.least_link_mbit)
MOST_LINK_MBIT = KIND.key(lambda own: own.most_link_mbit)
RAY_MOST_LINK_MBIT = KIND.key(lambda own: own.ray_most_link_mbit)
BOTH_SHARE = KIND.key(lambda own: own.both_share)
GLOO_FAST_SHARE = KIND.key(lambda own: own.gloo_fast_share)
WAITING_SHARE = KIND.key(lambda own: own.waiting_share)
RESENT_SHARE = KIND.key(lambda own: own.resent_share)
SHARES: Mapping[str, LimitKey[float]] = {
    TCP: KIND.key(lambda own: own.tcp_share),
    GLOO: KIND.key(lambda own: own.gloo_share),
    NCCL: KIND.key(lambda own: own.nccl_share),
    RAY: KIND.key(lambda own: own.ray_share),
}

FAST_MBIT = 10_000  # from here on gloo's floor is that of one core (gloo#248)
USUAL_MTU = 1500
# Bytes of a packet that are not data: IPv4 20, IPv6 40, TCP 20 with 12 of time stamps. Around it on the wire:
# Ethernet's header 14, its checksum 4, preamble 8, gap 12; an interface counts the header alone.
TCP_HEADERS, IPV6_MORE, ON_THE_WIRE, COUNTED = 52, 20, 38, 14
OTHERS = 1.05  # what a card counted beyond this much more than our own data is somebody else's

UNTOLD = "which end cannot be told"
CABLE = "swap the cable, then the switch port; `ethtool {0}` and `ethtool -S {0}` show speed and errors"
STOPPED = (
    "run again; if {0} stands still again, see `sudo dmesg` there, or ask whoever runs that virtual machine"
)

Kind = tuple[str, str, str]  # operation, direction, company
ONE_WAY: tuple[Kind, ...] = ((SEND, OUT, ALONE), (SEND, BACK, ALONE))
BOTH_WAYS: tuple[Kind, ...] = (*ONE_WAY, (SEND, OUT, TOGETHER), (SEND, BACK, TOGETHER))
# All-gather of two ranks has no floor: gloo takes far longer for it than with three (gloo#471).
OF_LIBRARY: tuple[Kind, ...] = (*ONE_WAY, (BROADCAST, OUT, ALONE), (ALL_REDUCE, BOTH, ALONE))
JUDGED: Mapping[str, tuple[Kind, ...]] = {
    TCP: BOTH_WAYS,
    GLOO: OF_LIBRARY,
    NCCL: OF_LIBRARY,
    RAY: BOTH_WAYS,
}


@dataclass(frozen=True, slots=True)
class Work:
    """One kind of traffic in one direction, and the rate that it had, MB/s."""

    traffic: str
    operation: str
    direction: str
    company: str
    mbps: float = 0.0
    usual_mbps: float = 0.0  # the median of its rounds
    few: bool = False  # of too few rounds to be a rate; but what is this slow is slow

    def words(self, nodes: Sequence[str]) -> str:
        """`tcp from pc1 to pc2, both ways busy`."""
        one, other = nodes if self.direction == OUT else reversed(nodes)
        own = "Ray's objects" if self.traffic == RAY else self.traffic
        what = own if self.operation == SEND else f"{own} {self.operation}"
        way = "" if self.direction == BOTH else f" from {one} to {other}"
        return f"{what}{way}{', both ways busy' if self.company == TOGETHER else ''}"


@dataclass(frozen=True, slots=True)
class Link:
    """What the slower end's link carries. `mbit`: by which it is judged; `payload_mbps`: of data, by TCP."""

    mbit: float
    source: str
    payload_mbps: float
    note: str = ""  # a card that has linked at less
    slow_end: str = ""  # its node


@dataclass(frozen=True, slots=True)
class Missed:
    """A rate, and its floor, which it may miss."""

    work: Work
    floor: Limit

    @property
    def share(self) -> float:
        """The rate relative to the floor."""
        return self.work.mbps / self.floor.value


@dataclass(frozen=True)
class Between:
    """What was measured between the two nodes of a pair. Properties raise NotMeasured."""

    pair: SharedEvidence

    @cached_property
    def nodes(self) -> tuple[NodeEvidence, NodeEvidence]:
        one, other = self.pair.members
        assert isinstance(one, NodeEvidence)
        assert isinstance(other, NodeEvidence)
        return one, other

    @property
    def names(self) -> tuple[str, str]:
        return self.nodes[0].subject, self.nodes[1].subject

    @cached_property
    def ends(self) -> Mapping[str, LanEnd]:
        """By node what its end is; the last one of each that reported."""
        found = self.pair.evidence.records(LanEnd, self.pair.subject)
        return {one.node: one for one in found if one.stage == STAGE}

    def interface(self, node: str) -> str:
        """The name of a node's interface; a usual one if it is not known."""
        return (self.ends[node].interface if node in self.ends else "") or "eth0"

    def share(self, key: LimitKey[float]) -> float:
        """A setting of the stage; both nodes have the same."""
        return self.nodes[0].limit(key).value

    def cause(self) -> str:
        """What happened to the crew or to a node, if that explains that nothing came through; else empty."""
        for event in self.pair.events("crew_failed"):
            if event.stage in (STAGE, None):
                return f"{event.message} (at t={event.t_s:.0f} s)"
        return next(filter(None, (one.cause(STAGE) for one in self.nodes)), "")

    # Rates, and their floors.

    @cached_property
    def tcp(self) -> Sequence[Work]:
        return self._rates(TCP)

    @cached_property
    def others(self) -> Sequence[Work]:
        """The rates of the libraries and of Ray that both ends were told to measure."""
        names = set(self.pair.subject.split("+"))
        told = [one for one in self.pair.evidence.specs(STAGE) if one.get("node") in names]
        if {one["node"] for one in told} != names:
            raise NotMeasured("what its workers were told to do is not recorded")
        due: list[str] = []
        if all(one.get("library_s") for one in told):
            due += LIBRARIES if all(one.get("cuda") for one in told) else (GLOO,)
        if all(one.get("ray_s") for one in told):
            due.append(RAY)
        return [one for name in due for one in self._rates(name)]

    def _rates(self, traffic: str) -> list[Work]:
        """The rates of one kind of traffic; of too few rounds of TCP that of all that came."""
        rounds = self.pair.rounds(STAGE).verified.measured
        found = []
        for operation, direction, company in JUDGED[traffic]:
            one = Work(traffic, operation, direction, company)
            own = rounds.having(traffic=traffic, operation=operation, direction=direction, company=company)
            if len(own) >= FEWEST_ROUNDS:
                found.append(replace(one, mbps=own.rate(), usual_mbps=median(own.rates.tolist())))
                continue
            whole = [record for record in self.counted(one) if record.role == "receiver" and record.mb > 0]
            if traffic != TCP or not whole or not whole[-1].seconds > 0:  # others also prepare data meanwhile
                raise self.too_few(one)
            found.append(replace(one, mbps=whole[-1].mb / whole[-1].seconds, few=True))
        return found

    def require_enough(self, work: Sequence[Work]) -> None:
        """NotMeasured if one of these had too few rounds."""
        for one in work:
            if one.few:
                raise self.too_few(one)

    def too_few(self, work: Work) -> NotMeasured:
        """The error that there were too few rounds of this, and why, if only that an end could not run."""
        unable = [event.message for event in self.pair.events("lan_unable")]
        cause = next(iter(unable), "") or self.cause()
        what = f"too few rounds of {work.words(self.names)}"
        end = max(self.counted(work), key=self._away, default=None)
        if cause or end is None or self._away(end) < self.share(WAITING_SHARE):
            return NotMeasured(what, cause)
        return self.by_absence(end, what)

    @cached_property
    def link(self) -> Link | None:
        """The slower end's link; None if an end's speed is known neither from its driver nor the profile."""
        if set(self.ends) != set(self.names):
            raise NotMeasured("an end did not say which interface it has", self.cause())
        found = [self.link_of(one) for one in self.nodes]
        known = [one for one in found if one is not None]
        return min(known, key=lambda one: one.payload_mbps) if len(known) == len(found) else None

    def link_of(self, node: NodeEvidence) -> Link | None:
        """What the node's end can carry; None if neither its driver nor the profile says it."""
        end, stated = self.ends[node.subject], node.optional_limit(LINK_MBIT)
        told, reported = end.link_mbit, f"{end.interface} of {end.node}"
        if told is not None and not 0 < told < float("inf"):
            raise NotMeasured(f"{reported} reports {told} Mbit/s")
        most = node.limit(MOST_LINK_MBIT).value
        if stated is not None:
            mbit, source = min(stated.value, most), f"`{LINK_MBIT}`, {stated.source}"
        elif told is not None:
            mbit, source = min(max(told, node.limit(LEAST_LINK_MBIT).value), most), reported
        else:
            return None
        mtu = min([one.mtu for one in self.ends.values() if one.mtu is not None], default=USUAL_MTU)
        headers = TCP_HEADERS + (IPV6_MORE if ":" in end.address else 0)
        payload_mbps = mbit / BITS * max(0.0, (mtu - headers) / (mtu + ON_THE_WIRE))
        if told is None or told >= mbit:
            return Link(mbit, source, payload_mbps)
        return Link(mbit, source, payload_mbps, f"{reported} has linked at {told:g} Mbit/s", end.node)

    def lowest(self, work: Sequence[Work]) -> Missed:
        """What is lowest relative to its floor; there is a link."""
        return min((Missed(one, self.floor(one)) for one in work), key=lambda one: one.share)

    def floor(self, work: Work) -> Limit:
        """What this has to reach; there is a link."""
        assert self.link is not None
        node, mbit = self.nodes[0], self.link.mbit
        slow_gloo = work.traffic == GLOO and mbit >= FAST_MBIT
        share = node.limit(GLOO_FAST_SHARE if slow_gloo else SHARES[work.traffic])
        if work.traffic == RAY:
            mbit = min(mbit, node.limit(RAY_MOST_LINK_MBIT).value)
        payload_mbps = self.link.payload_mbps * mbit / self.link.mbit
        payload_mbps *= node.limit(BOTH_SHARE).value if work.company == TOGETHER else 1.0
        of = f"{share.value:g} of the {figure(payload_mbps, UNIT)} of data that {mbit:g} Mbit/s carry"
        return Limit(share.value * payload_mbps, f"{of} ({self.link.source}); {share.source}")

    # What cards, threads and TCP counted.

    def counted(self, work: Work | None = None) -> list[LanTraffic]:
        """What both ends counted of this traffic, of all TCP by default."""
        found = self.pair.evidence.records(LanTraffic, self.pair.subject)
        records = [one for one in found if one.stage == STAGE]
        if work is None:
            return [one for one in records if one.traffic == TCP]
        same = (work.traffic, work.operation, work.direction, work.company)
        return [one for one in records if (one.traffic, one.operation, one.direction, one.company) == same]

    def was_away(self, missed: "Missed") -> LanTraffic | None:
        """The end that could not run for so long that this explains a low rate; None if none does.

        No such wait makes TCP send so much again that this fails by itself. A stall of ours can cost TCP more
        than its own time: then most windows are as fast as they should.
        """
        if (resent_share(self.counted()) or 0.0) > self.share(RESENT_SHARE):
            return None
        work, floor = missed.work, missed.floor.value
        for one in self.counted(work):
            away = self._away(one)
            if away >= self.share(WAITING_SHARE):
                kept = 1 - away
                if max(work.mbps, kept * work.usual_mbps) >= kept * floor:
                    return one
        return None

    def by_absence(self, one: LanTraffic, what: str) -> Disturbed:
        """The error that this is explained by an end that could not run."""
        waited, still = _waited(one), self._still(one)
        if still > waited:
            stopped = f"{one.node} stood still for up to {still * one.seconds:.1f} s"
            return Disturbed(f"{stopped}: {what}", STOPPED.format(one.node), one.t_s)
        return Disturbed(
            f"our process on {one.node} waited {100 * waited:.0f} % of the time for a CPU: {what}",
            f"run again while nothing else keeps the CPUs of {one.node} busy",
            one.t_s,
        )

    def _away(self, one: LanTraffic) -> float:
        """The share of the time for which an end could not run."""
        return max(_waited(one), self._still(one))

    def _still(self, one: LanTraffic) -> float:
        """The share of the time for which the host of an end stood still."""
        still = self.pair.evidence.standstills(one.node)
        if not len(still) or not one.seconds > 0:
            return 0.0
        return within(still, one.t_s - one.seconds, one.t_s) / one.seconds

    def errors(self) -> str:
        """What the cards counted as errors and drops during TCP, in words; empty if nothing."""
        found = []
        for node in self.names:
            own = [one for one in self.counted() if one.node == node]
            errors = sum(max(0, one.errors or 0) for one in own)
            drops = sum(max(0, one.drops or 0) for one in own)
            counts = [f"{number} {what}" for number, what in ((errors, "errors"), (drops, "drops")) if number]
            if counts:
                found.append(f"{', '.join(counts)} on the card of {node}")
        return "; ".join(found)

    def others_mbps(self, one: LanTraffic) -> float:
        """What an interface counted beyond our data and their headers, MB/s; 0 if it did not say."""
        mtu = (self.ends[one.node].mtu if one.node in self.ends else None) or USUAL_MTU
        if one.card_mb is None or not one.seconds > 0:
            return 0.0
        own = one.mb * (mtu + COUNTED) / max(1, mtu - TCP_HEADERS)
        if one.sent and one.resent:
            own *= 1 + one.resent / one.sent
        return max(0.0, one.card_mb - OTHERS * own) / one.seconds


def _waited(one: LanTraffic) -> float:
    """The share of the time that an end waited for a CPU; 0 if it did not say."""
    return min(one.waiting_share or 0.0, 1.0)


def resent_share(records: Sequence[LanTraffic]) -> float | None:
    """The share of segments that were sent again; None if no kernel says."""
    told = [(one.sent, one.resent) for one in records if one.sent and one.resent is not None]
    return sum(again for _, again in told) / sum(sent for sent, _ in told) if told else None


def errors_share(records: Sequence[LanTraffic]) -> float:
    """How many errors the cards counted for each packet of usual size that was sent."""
    packets = sum(one.mb for one in records if one.role == "sender") * 1e6 / (USUAL_MTU - TCP_HEADERS)
    return sum(max(0, one.errors or 0) for one in records) / packets if packets > 0 else 0.0


def where(found: Between) -> tuple[str, str]:
    """Which end, or what between them, is slow, by the other pairs; and what to try."""
    evidence, names = found.pair.evidence, found.names
    slow = evidence.cached(("slow pairs", STAGE), lambda: slow_pairs(evidence))
    guilty = []
    for name in names:
        own = [is_slow for members, is_slow in slow.items() if name in members]
        others = [is_slow for members, is_slow in slow.items() if name not in members]
        if len(own) > 1 and all(own) and not all(others or [False]):
            guilty.append(name)
    if len(guilty) == 1:
        (node,) = guilty
        rest = ", all else is not" if any(node not in members for members in slow) else ""
        place = f"all to or from {node} is slow{rest}: its card, cable or port"
        return place, CABLE.format(found.interface(node))
    known = {name: [one for members, one in slow.items() if name in members] for name in names}
    if all(len(own) > 1 and not all(own) for own in known.values()):
        remedy = "join both by one switch, or swap what joins their switches"
        return "both are fast with others: it lies between them", remedy
    if len(slow) > 1 and all(slow.values()):
        return "every pair is slow: the switch, or `link_mbit` promises too much", ""
    return UNTOLD, f"replace one part at a time: the cable of {names[0]}, of {names[1]}, their switch ports"


def slow_pairs(evidence: Evidence) -> Mapping[tuple[str, ...], bool]:
    """Whether TCP is slow, or silent, between each two nodes.

    Left out are pairs that were not measured, or whose low rate a host that could not run explains.
    """
    slow = {}
    for one in subjects(evidence.loaded, "node_ring"):
        found = Between(evidence.shared("node_ring", one.text))
        if any(event.data.get("traffic") != RAY for event in found.pair.events("lan_silent")):
            slow[one.members] = True
            continue
        with suppress(NotMeasured):
            if found.link is None:
                continue
            missed = found.lowest(found.tcp)
            if missed.share >= 1 or found.was_away(missed) is None:
                slow[one.members] = missed.share < 1
    return slow
