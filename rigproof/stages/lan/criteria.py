"""Do two nodes exchange data as fast as the link between them can carry them, and without losses?"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from rigproof.criteria.criterion import (
    Criterion,
    Disturbed,
    Finding,
    Limit,
    NotApplicable,
    NotMeasured,
    pass_or_fail,
)
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.nodes import NodeEvidence
from rigproof.criteria.evidence.rounds import FEWEST_ROUNDS, Rounds
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.profiles.planning.subjects import subjects
from rigproof.profiles.tables.base import LimitKey
from rigproof.records.measurements import Labels
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, figure
from rigproof.stages.lan.stage import (
    ALL_GATHER,
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
    SEND,
    STAGE,
    TCP,
    TOGETHER,
    LanEnd,
    LanLatency,
    LanTraffic,
)
from rigproof.stages.tables import NO_RATE, StageTable, rate_of, verified_rounds

UNIT = "MB/s"
LINK_MBIT = KIND.key(lambda own: own.link_mbit)
LEAST_LINK_MBIT = KIND.key(lambda own: own.least_link_mbit)
MOST_LINK_MBIT = KIND.key(lambda own: own.most_link_mbit)
TCP_SHARE = KIND.key(lambda own: own.tcp_share)
BOTH_SHARE = KIND.key(lambda own: own.both_share)
GLOO_SHARE = KIND.key(lambda own: own.gloo_share)
GLOO_FAST_SHARE = KIND.key(lambda own: own.gloo_fast_share)
NCCL_SHARE = KIND.key(lambda own: own.nccl_share)
RESENT_WARN_SHARE = KIND.key(lambda own: own.resent_warn_share)
RESENT_SHARE = KIND.key(lambda own: own.resent_share)
WAITING_SHARE = KIND.key(lambda own: own.waiting_share)
BUSY_SHARE = KIND.key(lambda own: own.busy_share)

FAST_MBIT = 10_000  # from here on gloo's floor is that of one core (gloo#248)
USUAL_MTU = 1500
# Bytes of a packet that are not data: IPv4 20, IPv6 40, TCP 20 with 12 of time stamps. Around it on the wire:
# Ethernet's header 14, its checksum 4, preamble 8, gap 12; an interface counts the header alone.
TCP_HEADERS, IPV6_MORE, ON_THE_WIRE, COUNTED = 52, 20, 38, 14
OTHERS = 1.05  # what a card counted beyond this much more than our own data is somebody else's
UNTOLD = "which end cannot be told"
HALF_SHARE = 0.65  # of the rate alone: half duplex gives each direction about half

TCP_WORK: tuple[tuple[str, str, str], ...] = (
    (SEND, OUT, ALONE),
    (SEND, BACK, ALONE),
    (SEND, OUT, TOGETHER),
    (SEND, BACK, TOGETHER),
)
# All-gather of two ranks has no floor: gloo takes far longer for it than with three (gloo#471).
LIBRARY_WORK: tuple[tuple[str, str, str], ...] = (
    (SEND, OUT, ALONE),
    (SEND, BACK, ALONE),
    (BROADCAST, OUT, ALONE),
    (ALL_REDUCE, BOTH, ALONE),
)
CABLE = "swap the cable, then the switch port; `ethtool {0}` and `ethtool -S {0}` show speed and errors"


@dataclass(frozen=True, slots=True)
class Work:
    """One kind of traffic in one direction, and the rate that it had, MB/s."""

    traffic: str
    operation: str
    direction: str
    company: str
    mbps: float
    usual_mbps: float = 0.0  # the median of its rounds
    few: bool = False  # of too few rounds to be a rate; but what is this slow is slow

    def words(self, nodes: tuple[str, str]) -> str:
        """`tcp from pc1 to pc2, both ways busy`."""
        one, other = nodes if self.direction == OUT else reversed(nodes)
        what = self.traffic if self.operation == SEND else f"{self.traffic} {self.operation}"
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
    """A rate that is below its floor."""

    work: Work
    floor: Limit


@Criterion(
    "lan.bandwidth",
    title="LAN rate",
    scope="node_ring",
    unit=UNIT,
    direction="at_least",
    limit="everything arrives as it was sent; one TCP stream has at least `stages.lan.tcp_share` of what the "
    "slower end's link carries beside headers, each way, and `stages.lan.both_share` of that while both are "
    "busy; gloo `stages.lan.gloo_share` (from 10 Gbit/s on `stages.lan.gloo_fast_share`) and NCCL over "
    "sockets `stages.lan.nccl_share` for sending, broadcast and all-reduce; the link is what the driver of "
    "the card reports, or `stages.lan.link_mbit`, between `stages.lan.least_link_mbit` and "
    "`stages.lan.most_link_mbit`. Of TCP's segments at most `stages.lan.resent_share` are sent again; more "
    "than `stages.lan.resent_warn_share` warns, and so does a rate that a busy core limits "
    "(`stages.lan.busy_share`). The rate that is lowest relative to its floor is shown. No floor if no "
    "driver reports a speed",
    limits=(
        *(TCP_SHARE, BOTH_SHARE, GLOO_SHARE, GLOO_FAST_SHARE, NCCL_SHARE, LINK_MBIT, LEAST_LINK_MBIT),
        *(MOST_LINK_MBIT, RESENT_SHARE, RESENT_WARN_SHARE, BUSY_SHARE, WAITING_SHARE),
    ),
    severity="reseat",
    remedy="swap the cable, then the switch port, and try one end at another host's place",
    unmeasured="a process at one end was lost; somebody else's traffic on the same interface, or programs "
    "that kept ours from a CPU for `stages.lan.waiting_share` of the time, explain a rate that missed its "
    "floor; a library could not be used between the two; there are too few rounds. Not applicable if both "
    "nodes are one host",
    stages=(STAGE,),
    rate=True,
)
def bandwidth(pair: SharedEvidence) -> Finding:
    """One TCP stream, gloo, and NCCL over sockets where both nodes have GPUs, from a node to the next one.

    There, back, and both at once; every byte is compared. What the cards and TCP count meanwhile tells a bad
    cable from somebody else's traffic and from a busy host; the other pairs tell a slow node from a slow way.
    """
    ends = _ends(pair)
    if ends and all(one.kind == "loopback" for one in ends.values()):
        raise NotApplicable("both nodes are on one host, so that nothing crosses a LAN")
    if (broken := _broken(pair)) is not None:
        return broken
    nodes = _nodes(pair)
    tcp = _rates(pair, TCP, TCP_WORK)
    detail = _summary(pair, tcp)
    link = _link(pair, nodes, ends)
    if link is None:
        unknown = ", ".join(name for name, one in ends.items() if one.link_mbit is None)
        detail = f"{detail}; no driver reports the link's speed ({unknown}): state `stages.lan.link_mbit`"
        _require_enough(pair, [*tcp, *_libraries(pair)])
        return _lossy(pair, nodes, ends, min(tcp, key=_mbps).mbps) or Finding(
            Outcome.NO_LIMIT, min(tcp, key=_mbps).mbps, detail=detail
        )
    lowest = _lowest(nodes[0], link, tcp)
    libraries: list[Work] = []
    if lowest.work.mbps >= lowest.floor.value:
        libraries = _libraries(pair)
        detail += "".join(
            f"; {name} {figure(min(one.mbps for one in libraries if one.traffic == name))}"
            for name in dict.fromkeys(one.traffic for one in libraries)
        )
        lowest = _lowest(nodes[0], link, [*tcp, *libraries])
    rate, floor = lowest.work.mbps, lowest.floor
    if rate >= floor.value:
        _require_enough(pair, [*tcp, *libraries])
        lossy = _lossy(pair, nodes, ends, rate)
        return lossy or pass_or_fail(rate, floor, good=True, detail=detail)
    return _slow(pair, nodes, ends, link, lowest)


CRITERIA = (bandwidth,)


def _require_enough(pair: SharedEvidence, work: list[Work]) -> None:
    for one in work:
        if one.few:
            raise _too_few(pair, one)


def _mbps(one: Work) -> float:
    return one.mbps


def _nodes(pair: SharedEvidence) -> tuple[NodeEvidence, NodeEvidence]:
    one, other = pair.members
    assert isinstance(one, NodeEvidence)
    assert isinstance(other, NodeEvidence)
    return one, other


def _ends(pair: SharedEvidence) -> dict[str, LanEnd]:
    """By node what its end is; the last one of each that reported."""
    return {one.node: one for one in pair.evidence.records(LanEnd, pair.subject) if one.stage == STAGE}


def _broken(pair: SharedEvidence) -> Finding | None:
    """The failure of a way that changes data, or carries none; NotMeasured if a process was lost."""
    source = "everything arrives as it was sent"
    if wrong := pair.events("lan_wrong"):
        remedy = "do not train over this way: try another cable and port, then without offloads"
        return Finding(
            Outcome.FAIL, detail=wrong[0].message, remedy=remedy, source=source, from_s=wrong[0].t_s
        )
    everything = pair.evidence.rounds(pair.subject)
    own = everything.only(everything.same("stage", STAGE))
    unverified = own.only(~own.same("verified", True))
    if len(unverified):
        what = unverified.labels("traffic")[0]
        from_s = float(unverified.t_s[0])
        return Finding(
            Outcome.FAIL, detail=f"a round of {what} is not what was sent", source=source, from_s=from_s
        )
    unable = pair.events("lan_unable")  # at one end: then the other one waits for nobody
    silent = [one for one in pair.events("lan_silent") if one.data.get("traffic") == TCP or not unable]
    if not silent:
        return None
    if cause := _cause(pair):
        raise NotMeasured(silent[0].message, cause)
    names = (pair.members[0].subject, pair.members[1].subject)
    where, remedy = _where(pair, names, _ends(pair))
    return Finding(
        Outcome.FAIL,
        detail=f"{silent[0].message}; {where}",
        remedy=remedy
        if len(pair.evidence.loaded.rig.nodes) > 2
        else "see that nothing filters ports between the two (`sudo ufw status`), then swap the cable",
        source="data come through",
        from_s=silent[0].t_s,
    )


def _cause(pair: SharedEvidence) -> str:
    """What happened to the crew or to a node, if that explains that nothing came through; else empty."""
    for event in pair.events("crew_failed"):
        if event.stage in (STAGE, None):
            return f"{event.message} (at t={event.t_s:.0f} s)"
    return next(filter(None, (one.cause(STAGE) for one in _nodes(pair))), "")


def _rates(pair: SharedEvidence, traffic: str, work: tuple[tuple[str, str, str], ...]) -> list[Work]:
    """The rates of one kind of traffic; of too few rounds that of the whole traffic, NotMeasured without."""
    rounds = pair.rounds(STAGE).verified.measured
    found = []
    for operation, direction, company in work:
        own = rounds.having(traffic=traffic, operation=operation, direction=direction, company=company)
        few = len(own) < FEWEST_ROUNDS
        rate, usual = (0.0, 0.0) if few else (own.rate(), median(own.rates.tolist()))
        one = Work(traffic, operation, direction, company, rate, usual, few)
        if few:
            whole = [record for record in _traffic(pair, one) if record.role == "receiver" and record.mb > 0]
            if not whole or not whole[-1].seconds > 0:
                raise _too_few(pair, one)
            one = replace(one, mbps=whole[-1].mb / whole[-1].seconds)
        found.append(one)
    return found


def _too_few(pair: SharedEvidence, work: Work) -> NotMeasured:
    one, other = _nodes(pair)
    unable = [event.message for event in pair.events("lan_unable")]
    cause = next(iter(unable), "") or _cause(pair)
    return NotMeasured(f"too few rounds of {work.words((one.subject, other.subject))}", cause)


def _libraries(pair: SharedEvidence) -> list[Work]:
    """The rates of the libraries that both ends were told to measure. NotMeasured if one is missing."""
    told = _told(pair)
    if not all(one.get("library_s") for one in told):
        return []
    names = LIBRARIES if all(one.get("cuda") for one in told) else (GLOO,)
    return [one for name in names for one in _rates(pair, name, LIBRARY_WORK)]


def _told(pair: SharedEvidence) -> list[Mapping[str, Any]]:
    """What the workers of the two nodes were told to do."""
    stage = pair.evidence.stage(STAGE)
    specs, names = stage.settings.get("specs"), pair.subject.split("+")
    found = [one for one in specs.values() if one.get("node") in names] if isinstance(specs, Mapping) else []
    if {one["node"] for one in found} != set(names):
        raise NotMeasured("what its workers were told to do is not recorded")
    return found


def _link(
    pair: SharedEvidence, nodes: tuple[NodeEvidence, NodeEvidence], ends: Mapping[str, LanEnd]
) -> Link | None:
    """The slower end's link; None if an end's speed is known neither from its driver nor from the profile."""
    if set(ends) != {one.subject for one in nodes}:
        raise NotMeasured("an end did not say which interface it has", _cause(pair))
    found = []
    for node in nodes:
        end, stated, note, slow_end = ends[node.subject], node.optional_limit(LINK_MBIT), "", ""
        if end.link_mbit is not None and not 0 < end.link_mbit < float("inf"):
            raise NotMeasured(f"{end.interface} of {end.node} reports {end.link_mbit} Mbit/s")
        reported = f"{end.interface} of {end.node}"
        if stated is None and end.link_mbit is None:
            return None
        least, most = node.limit(LEAST_LINK_MBIT), node.limit(MOST_LINK_MBIT)
        if stated is not None:
            mbit, source = min(stated.value, most.value), f"`{LINK_MBIT}`, {stated.source}"
        else:
            assert end.link_mbit is not None
            mbit, source = min(max(end.link_mbit, least.value), most.value), reported
        if end.link_mbit is not None and end.link_mbit < mbit:
            note, slow_end = f"{reported} has linked at {end.link_mbit:g} Mbit/s", end.node
        mtu = min([one.mtu for one in ends.values() if one.mtu is not None], default=USUAL_MTU)
        headers = TCP_HEADERS + (IPV6_MORE if ":" in end.address else 0)
        share = max(0.0, (mtu - headers) / (mtu + ON_THE_WIRE))
        found.append(Link(mbit, source, mbit / BITS * share, note, slow_end))
    return min(found, key=lambda one: one.payload_mbps)


def _lowest(node: NodeEvidence, link: Link, work: list[Work]) -> Missed:
    """What is lowest relative to its floor."""
    return min(
        (Missed(one, _floor(node, link, one)) for one in work),
        key=lambda one: one.work.mbps / one.floor.value,
    )


def _floor(node: NodeEvidence, link: Link, work: Work) -> Limit:
    fast = link.mbit >= FAST_MBIT
    keys: dict[str, LimitKey[float]] = {
        TCP: TCP_SHARE,
        GLOO: GLOO_FAST_SHARE if fast else GLOO_SHARE,
        NCCL: NCCL_SHARE,
    }
    share = node.limit(keys[work.traffic])
    factor = link.payload_mbps
    if work.company == TOGETHER:
        factor *= node.limit(BOTH_SHARE).value
    of = f"{share.value:g} of the {figure(factor, UNIT)} of data that {link.mbit:g} Mbit/s carry"
    return Limit(share.value * factor, f"{of} ({link.source}); {share.source}")


def _traffic(pair: SharedEvidence, work: Work | None = None) -> list[LanTraffic]:
    """What both ends counted of this traffic, of all TCP by default."""
    records = [one for one in pair.evidence.records(LanTraffic, pair.subject) if one.stage == STAGE]
    if work is None:
        return [one for one in records if one.traffic == TCP]
    same = (work.traffic, work.operation, work.direction, work.company)
    return [one for one in records if (one.traffic, one.operation, one.direction, one.company) == same]


def _resent(records: list[LanTraffic]) -> float | None:
    """The share of segments that were sent again; None if no kernel says."""
    told = [(one.sent, one.resent) for one in records if one.sent and one.resent is not None]
    return sum(again for _, again in told) / sum(sent for sent, _ in told) if told else None


def _lossy(
    pair: SharedEvidence, nodes: tuple[NodeEvidence, NodeEvidence], ends: Mapping[str, LanEnd], mbps: float
) -> Finding | None:
    """The failure or warning that much has to be sent again; None if not."""
    share, most, warns = (
        _resent(_traffic(pair)),
        nodes[0].limit(RESENT_SHARE),
        nodes[0].limit(RESENT_WARN_SHARE),
    )
    if share is None or share <= warns.value:
        return None
    limit = most if share > most.value else warns
    told = [one for one in _traffic(pair) if one.role == "sender" and one.resent]
    worst = max(told, key=lambda one: (one.resent or 0) / (one.sent or 1))
    other = next(one.subject for one in nodes if one.subject != worst.node)
    detail = f"of TCP segments sent again, most from {worst.node} to {other}, at {figure(mbps, UNIT)}"
    if errors := _errors(pair):
        detail += f"; {errors}"
    _require_undisturbed(pair, nodes, ends, worst)
    return Finding(
        Outcome.FAIL if limit is most else Outcome.WARN,
        100 * share,
        Limit(100 * limit.value, limit.source, "at_most"),
        detail=f"{detail}: a bad cable, port or switch",
        remedy=CABLE.format(_interface(ends, worst.node)),
        unit="%",
    )


def _require_undisturbed(
    pair: SharedEvidence,
    nodes: tuple[NodeEvidence, NodeEvidence],
    ends: Mapping[str, LanEnd],
    worst: LanTraffic,
) -> None:
    """Disturbed if others sent so much that packets had to be dropped."""
    for one in _traffic(pair):
        link = _link(pair, nodes, ends)
        others = _others_mbps(one, ends)
        if link is not None and others > (1 - nodes[0].limit(TCP_SHARE).value) * link.payload_mbps:
            raise _by_others(one, ends, others, f"{worst.resent} segments were sent again")


def _others_mbps(one: LanTraffic, ends: Mapping[str, LanEnd]) -> float:
    """What an interface counted beyond our own data and their headers, MB/s; 0 if it did not say."""
    mtu = ends[one.node].mtu if one.node in ends else None
    if one.card_mb is None or not one.seconds > 0:
        return 0.0
    own = one.mb * ((mtu or USUAL_MTU) + COUNTED) / max(1, (mtu or USUAL_MTU) - TCP_HEADERS)
    if one.sent and one.resent:
        own *= 1 + one.resent / one.sent
    return max(0.0, one.card_mb - OTHERS * own) / one.seconds


def _by_others(one: LanTraffic, ends: Mapping[str, LanEnd], mbps: float, what: str) -> Disturbed:
    where = f"{ends[one.node].interface} of {one.node}"
    way = "sent" if one.role == "sender" else "received"
    return Disturbed(
        f"{where} {way} {figure(mbps, UNIT)} for others meanwhile: {what}",
        f"run again while nothing else uses {where} (`sudo nethogs` shows who does)",
        one.t_s,
    )


def _errors(pair: SharedEvidence) -> str:
    """What the cards counted as errors during TCP, in words; empty if nothing."""
    counted: dict[str, int] = {}
    for one in _traffic(pair):
        if one.errors and one.errors > 0:
            counted[one.node] = counted.get(one.node, 0) + one.errors
    return ", ".join(f"{number} errors on the card of {node}" for node, number in counted.items())


def _slow(
    pair: SharedEvidence,
    nodes: tuple[NodeEvidence, NodeEvidence],
    ends: Mapping[str, LanEnd],
    link: Link,
    missed: Missed,
) -> Finding:
    """The finding about a rate under its floor: whose fault it is, as far as the records tell."""
    work, floor, seen = missed.work, missed.floor, _traffic(pair, missed.work)
    names = (nodes[0].subject, nodes[1].subject)
    what = f"{work.words(names)} had {figure(work.mbps, UNIT)}, limit {figure(floor.value, UNIT)}"
    for one in seen:
        others = _others_mbps(one, ends)
        if others and work.mbps + others >= floor.value:
            raise _by_others(one, ends, others, what)
        waited = one.waiting_share
        kept = 1 - min(waited or 0.0, 1.0)
        # A stall of ours can cost TCP more than its own time: then most windows are as fast as they should.
        explains = max(work.mbps, kept * work.usual_mbps) >= kept * floor.value
        if waited is not None and explains and waited >= nodes[0].limit(WAITING_SHARE).value:
            raise Disturbed(
                f"our process on {one.node} waited {100 * waited:.0f} % of the time for a CPU: {what}",
                f"run again while nothing else keeps the CPUs of {one.node} busy",
                one.t_s,
            )
    found, remedy = [work.words(names)], ""
    busy = [one for one in seen if one.cpu_share >= nodes[0].limit(BUSY_SHARE).value]
    resent, errors = _resent(seen or _traffic(pair)) or _resent(_traffic(pair)), _errors(pair)
    lossy = resent is not None and resent > nodes[0].limit(RESENT_WARN_SHARE).value
    if lossy and resent is not None:
        found.append(f"{100 * resent:.2g} % of its segments were sent again: a bad cable, port or switch")
    if errors:
        found.append(errors)
    if link.note:
        found.append(link.note)
    half = [one for one in ends.values() if one.full_duplex is False]
    alone = _rates(pair, TCP, TCP_WORK[:2])
    if half:
        found.append(f"{half[0].interface} of {half[0].node} is half duplex")
    elif work.company == TOGETHER and work.mbps < HALF_SHARE * min(one.mbps for one in alone):
        found.append("half of its rate alone, as with half duplex")
    limited = bool(busy) and not (lossy or errors or link.note or half)
    if limited:
        one = busy[0]
        found.append(f"one core of {one.node} was the limit ({100 * one.cpu_share:.0f} % busy), not the link")
        remedy = f"see the CPU clock and power settings of {one.node}: it is not the link"
    else:
        where, remedy = _where(pair, names, ends)
        if link.slow_end:  # that is where it is
            remedy = CABLE.format(_interface(ends, link.slow_end))
        elif not half and not (lossy and where == UNTOLD):
            found.append(where)
    outcome = Outcome.WARN if limited else Outcome.FAIL
    return Finding(outcome, work.mbps, floor, detail="; ".join(found), remedy=remedy)


def _where(pair: SharedEvidence, names: tuple[str, str], ends: Mapping[str, LanEnd]) -> tuple[str, str]:
    """Which end, or what between them, is slow, by the other pairs; and what to try."""
    evidence = pair.evidence
    slow = evidence.cached(("slow pairs", STAGE), lambda: slow_pairs(evidence))
    guilty = []
    for name in names:
        own = [is_slow for members, is_slow in slow.items() if name in members]
        others = [is_slow for members, is_slow in slow.items() if name not in members]
        if len(own) > 1 and all(own) and not all(others or [False]):
            guilty.append(name)
    if len(guilty) == 1:
        (node,) = guilty
        return (
            f"all to or from {node} is slow, all else is not: its card, cable or port",
            CABLE.format(_interface(ends, node)),
        )
    known = {name: [one for members, one in slow.items() if name in members] for name in names}
    if all(len(own) > 1 and not all(own) for own in known.values()):
        return (
            "both are fast with others: it lies between them",
            "join both by one switch, or swap what joins their switches",
        )
    if len(slow) > 1 and all(slow.values()):
        return "every pair is slow: the switch, or `link_mbit` promises too much", ""
    remedy = f"swap the cables of {names[0]} and {names[1]}, then their switch ports, one at a time"
    return UNTOLD, remedy


def _interface(ends: Mapping[str, LanEnd], node: str) -> str:
    return (ends[node].interface if node in ends else "") or "eth0"


def slow_pairs(evidence: Evidence) -> dict[tuple[str, ...], bool]:
    """Whether TCP is slow, or silent, between each two nodes; pairs that were not measured are left out."""
    found = {}
    for one in subjects(evidence.loaded, "node_ring"):
        pair = evidence.shared("node_ring", one.text)
        if pair.events("lan_silent"):
            found[one.members] = True
            continue
        with suppress(NotMeasured):
            nodes, link = _nodes(pair), _link(pair, _nodes(pair), _ends(pair))
            if link is not None:
                lowest = _lowest(nodes[0], link, _rates(pair, TCP, TCP_WORK))
                found[one.members] = lowest.work.mbps < lowest.floor.value
    return found


def _summary(pair: SharedEvidence, tcp: list[Work]) -> str:
    """The rates of TCP in words, how long small messages take, and what was sent again."""
    out, back, *both = (figure(one.mbps) for one in tcp)
    text = f"tcp {out} there, {back} back, {' + '.join(both)} at once"
    if (resent := _resent(_traffic(pair))) is not None:
        text += f", {100 * resent:.2g} % sent again"
    for one in pair.evidence.records(LanLatency, pair.subject):
        if (one.traffic, one.size) == (TCP, 4):
            text += f", {figure(one.median_ms, 'ms')} one way"
    return text


def tables(recording: Recording) -> Iterator[StageTable]:
    """A row for each pair and kind of traffic; a dash for what was not measured."""
    rows = []
    for pair, rounds in verified_rounds(recording, STAGE):
        own = rounds.only(rounds.same("stage", STAGE)).measured
        by_traffic = {traffic: own.having(traffic=traffic) for traffic in (TCP, *LIBRARIES)}
        rows += [
            (pair, traffic, *_cells(recording, pair, traffic, mine))
            for traffic, mine in by_traffic.items()
            if len(mine)
        ]
    if rows:
        yield StageTable(
            section="LAN",
            title="Rates between nodes",
            columns=(
                *("Pair", "by", f"there, {UNIT}", "back", "at once there", "at once back", "broadcast"),
                *("all-reduce", "all-gather", "4 B, ms", "p99", "1 KiB, ms", "p99", "sent again, %"),
            ),
            rows=tuple(rows),
            labels=2,
            note="One stream, or one operation at a time, of data that was compared; all-reduce and "
            "all-gather use both ways at once. Small messages: one way, half of the time there and back.",
        )


def _cells(recording: Recording, pair: str, traffic: str, rounds: Rounds) -> Iterator[str]:
    kinds: tuple[Labels, ...] = (
        {"operation": SEND, "direction": OUT, "company": ALONE},
        {"operation": SEND, "direction": BACK, "company": ALONE},
        {"operation": SEND, "direction": OUT, "company": TOGETHER},
        {"operation": SEND, "direction": BACK, "company": TOGETHER},
        {"operation": BROADCAST},
        {"operation": ALL_REDUCE},
        {"operation": ALL_GATHER},
    )
    for labels in kinds:
        yield rate_of(rounds, **labels)
    latencies = {one.size: one for one in recording.of(LanLatency).of(pair) if one.traffic == traffic}
    for size in (4, 1024):
        one = latencies.get(size)
        yield from (NO_RATE, NO_RATE) if one is None else (f"{one.median_ms:.3f}", f"{one.p99_ms:.3f}")
    records = [one for one in recording.of(LanTraffic).of(pair) if one.traffic == traffic]
    resent = _resent(records)
    yield NO_RATE if resent is None else f"{100 * resent:.3f}"
