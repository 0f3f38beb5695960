"""Do two nodes exchange data as fast as the link between them can carry them, and without losses?"""

from collections.abc import Iterator, Sequence

from rigproof.criteria.criterion import (
    Criterion,
    Disturbed,
    Finding,
    Limit,
    NotApplicable,
    NotMeasured,
    pass_or_fail,
)
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.records.measurements import Labels
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, figure
from rigproof.stages.lan.between import (
    BOTH_SHARE,
    CABLE,
    GLOO_FAST_SHARE,
    LEAST_LINK_MBIT,
    LINK_MBIT,
    MOST_LINK_MBIT,
    RAY_MOST_LINK_MBIT,
    RESENT_SHARE,
    SHARES,
    UNIT,
    UNTOLD,
    WAITING_SHARE,
    Between,
    Missed,
    Work,
    errors_share,
    resent_share,
    where,
)
from rigproof.stages.lan.stage import (
    ALL_GATHER,
    ALL_REDUCE,
    ALONE,
    BACK,
    BROADCAST,
    KIND,
    LIBRARIES,
    OUT,
    RAY,
    SEND,
    STAGE,
    TCP,
    TOGETHER,
    LanLatency,
    LanTraffic,
)
from rigproof.stages.tables import NO_RATE, StageTable, rate_of, verified_rounds

RESENT_WARN_SHARE = KIND.key(lambda own: own.resent_warn_share)
ERRORS_WARN_SHARE = KIND.key(lambda own: own.errors_warn_share)
BUSY_SHARE = KIND.key(lambda own: own.busy_share)

HALF_SHARE = 0.65  # of the rate alone: half duplex gives each direction about half
BAD_CABLE = "a bad cable, port or switch"


@Criterion(
    "lan.bandwidth",
    title="LAN rate",
    scope="node_ring",
    unit=UNIT,
    direction="at_least",
    limit="everything arrives as it was sent; one TCP stream has at least `stages.lan.tcp_share` of what the "
    "slower end's link carries beside headers, each way, and `stages.lan.both_share` of that while both are "
    "busy; gloo `stages.lan.gloo_share` (from 10 Gbit/s on `stages.lan.gloo_fast_share`) and NCCL over "
    "sockets `stages.lan.nccl_share` for sending, broadcast and all-reduce; Ray's objects, store to store, "
    "`stages.lan.ray_share`, of no more than `stages.lan.ray_most_link_mbit`; the link is what the driver of "
    "the card reports, or `stages.lan.link_mbit`, between `stages.lan.least_link_mbit` and "
    "`stages.lan.most_link_mbit`. Of TCP's segments at most `stages.lan.resent_share` are sent again; more "
    "than `stages.lan.resent_warn_share` warns, and so do errors that the cards count "
    "(`stages.lan.errors_warn_share`) and a rate that a busy core limits (`stages.lan.busy_share`). The rate "
    "that is lowest relative to its floor is shown. No floor if no driver reports a speed",
    limits=(
        *(*SHARES.values(), BOTH_SHARE, GLOO_FAST_SHARE, RAY_MOST_LINK_MBIT, LINK_MBIT, LEAST_LINK_MBIT),
        *(MOST_LINK_MBIT, RESENT_SHARE, RESENT_WARN_SHARE, ERRORS_WARN_SHARE, BUSY_SHARE, WAITING_SHARE),
    ),
    severity="reseat",
    remedy="swap the cable, then the switch port, and try one end at another host's place",
    unmeasured="a process at one end was lost, or did not say what it counted; somebody else's traffic on "
    "the same interface, or a host that stood still or kept our process from a CPU for "
    "`stages.lan.waiting_share` of the time, explains a rate that missed its floor; a library could not be "
    "used between the two; there are too few rounds. Not applicable if both nodes are one host",
    stages=(STAGE,),
    rate=True,
)
def bandwidth(pair: SharedEvidence) -> Finding:
    """One TCP stream, gloo, NCCL over sockets where both nodes have GPUs, and Ray's objects, between two.

    There, back, and both at once; every byte is compared. What the cards and TCP count meanwhile tells a bad
    cable from somebody else's traffic and from a busy host; the other pairs tell a slow node from a slow way.
    """
    found = Between(pair)
    if found.ends and all(one.kind == "loopback" for one in found.ends.values()):
        raise NotApplicable("both nodes are on one host, so that nothing crosses a LAN")
    if (broken := _broken(found)) is not None:
        return broken
    detail, slowest = _summary(found), min(found.tcp, key=lambda one: one.mbps)
    if found.link is None:
        unknown = ", ".join(one.subject for one in found.nodes if found.link_of(one) is None)
        detail += f"; no driver reports the link's speed ({unknown}): state `stages.lan.link_mbit`"
        found.require_enough([*found.tcp, *found.others])
        return _lossy(found, slowest.mbps) or Finding(Outcome.NO_LIMIT, slowest.mbps, detail=detail)
    lowest, work = found.lowest(found.tcp), [*found.tcp]
    if lowest.share >= 1:
        work += found.others
        detail += "".join(
            f"; {name} {figure(min(one.mbps for one in found.others if one.traffic == name))}"
            for name in dict.fromkeys(one.traffic for one in found.others)
        )
        lowest = found.lowest(work)
    if lowest.share < 1:
        return _slow(found, lowest)
    found.require_enough(work)
    rate = lowest.work.mbps
    return _lossy(found, rate) or pass_or_fail(rate, lowest.floor, good=True, detail=detail)


CRITERIA = (bandwidth,)


def _summary(found: Between) -> str:
    """The rates of TCP in words, how long small messages take, and what was sent again."""
    out, back, *both = (figure(one.mbps) for one in found.tcp)
    text = f"tcp {out} there, {back} back, {' + '.join(both)} at once"
    if (resent := resent_share(found.counted())) is not None:
        text += f", {100 * resent:.2g} % sent again"
    for one in found.pair.evidence.records(LanLatency, found.pair.subject):
        if (one.traffic, one.size) == (TCP, 4):
            text += f", {figure(one.median_ms, 'ms')} one way"
    return text


def _broken(found: Between) -> Finding | None:
    """The failure of a way that changes data, or carries none; NotMeasured if a process was lost."""
    pair, source = found.pair, "everything arrives as it was sent"
    if wrong := pair.events("lan_wrong"):
        remedy = "do not train over this way: try another cable and port, then without offloads"
        return Finding(
            Outcome.FAIL, detail=wrong[0].message, remedy=remedy, source=source, from_s=wrong[0].t_s
        )
    unverified = pair.unverified(STAGE)
    if len(unverified):
        detail = f"a round of {unverified.labels('traffic')[0]} is not what was sent"
        return Finding(Outcome.FAIL, detail=detail, source=source, from_s=float(unverified.t_s[0]))
    unable = pair.events("lan_unable")  # at one end: then the other one waits for nobody
    silent = [one for one in pair.events("lan_silent") if one.data.get("traffic") in (TCP, RAY) or not unable]
    if not silent:
        return None
    if cause := found.cause():
        raise NotMeasured(silent[0].message, cause)
    (one, other), first = found.names, silent[0]
    if first.data.get("traffic") == RAY:
        what = "though TCP came through: a firewall closes the port of Ray's object manager on one of them"
        remedy = f"run `sudo ufw allow from` the address of {other} on {one}, and that of {one} on {other}"
    else:
        what, remedy = where(found)
        if len(pair.evidence.loaded.rig.nodes) == 2:
            remedy = "see that nothing filters ports between them (`sudo ufw status`), then replace the cable"
    detail = f"{first.message}; {what}"
    return Finding(Outcome.FAIL, detail=detail, remedy=remedy, source="data come through", from_s=first.t_s)


def _lossy(found: Between, mbps: float) -> Finding | None:
    """The failure or warning that much has to be sent again, or that a card counts errors; None if not."""
    records = found.counted()
    told = [{one.node for one in found.counted(work)} for work in found.tcp]
    if missing := [name for name in found.names if any(name not in nodes for nodes in told)]:
        raise NotMeasured(f"{missing[0]} did not say what was sent again, and what its card counted")
    resent, errors = resent_share(records) or 0.0, errors_share(records)
    again = _most_resent(records)
    wrong = max(records, key=lambda one: one.errors or 0).node
    what = f"of TCP segments sent again, most from {again}, at {figure(mbps, UNIT)}"
    signs = (
        (Outcome.FAIL, RESENT_SHARE, resent, again, what),
        (Outcome.WARN, RESENT_WARN_SHARE, resent, again, what),
        (Outcome.WARN, ERRORS_WARN_SHARE, errors, wrong, "of packets with errors"),
    )
    for outcome, key, share, node, what in signs:
        limit = found.nodes[0].limit(key)
        if share <= limit.value:
            continue
        for one in records:  # others may have sent so much that packets had to be dropped
            others = found.others_mbps(one)
            if found.link is not None and others > (1 - found.share(SHARES[TCP])) * found.link.payload_mbps:
                raise _by_others(found, one, others, f"{100 * share:.2g} % {what}")
        detail = "; ".join(filter(None, [what, found.errors()]))
        return Finding(
            outcome,
            100 * share,
            Limit(100 * limit.value, limit.source, "at_most"),
            detail=f"{detail}: {BAD_CABLE}",
            remedy=CABLE.format(found.interface(node)),
            unit="%",
        )
    return None


def _most_resent(records: Sequence[LanTraffic]) -> str:
    """The node that had to send most of its segments again."""
    return max(records, key=lambda one: (one.resent or 0) / (one.sent or 1)).node


def _by_others(found: Between, one: LanTraffic, mbps: float, what: str) -> Disturbed:
    where = f"{found.ends[one.node].interface} of {one.node}"
    way = "sent" if one.role == "sender" else "received"
    return Disturbed(
        f"{where} {way} {figure(mbps, UNIT)} for others meanwhile: {what}",
        f"run again while nothing else uses {where} (`sudo nethogs` shows who does)",
        one.t_s,
    )


def _require_undisturbed(found: Between, missed: Missed) -> None:
    """Disturbed if others' traffic, or a host on which ours could not run, explains that a rate is low."""
    work, floor = missed.work, missed.floor.value
    what = f"{work.words(found.names)} had {figure(work.mbps, UNIT)}, limit {figure(floor, UNIT)}"
    for one in found.counted(work):
        others = found.others_mbps(one)
        if others and work.mbps + others >= floor:
            raise _by_others(found, one, others, what)
    end = found.was_away(missed)
    if end is not None:
        raise found.by_absence(end, what)


def _slow(found: Between, missed: Missed) -> Finding:
    """The finding about a rate under its floor: whose fault it is, as far as the records tell."""
    _require_undisturbed(found, missed)
    work, seen = missed.work, found.counted(missed.work)
    assert found.link is not None
    own, every = (resent_share(records) or 0.0 for records in (seen, found.counted()))
    resent, whose = (own, "its") if own >= every else (every, "TCP's")
    lossy = resent > found.share(RESENT_WARN_SHARE)
    half = _half_duplex(found, work)
    busy = next((one for one in seen if one.cpu_share >= found.share(BUSY_SHARE)), None)
    signs = [
        f"{100 * resent:.2g} % of {whose} segments were sent again: {BAD_CABLE}" if lossy else "",
        found.errors(),
        found.link.note,
        half,
    ]
    outcome, place = Outcome.FAIL, ""
    lost = own > found.share(RESENT_WARN_SHARE) or every > found.share(RESENT_SHARE)  # what no core explains
    faulty = lost or errors_share(found.counted()) or found.link.note or _told_half(found)
    if busy is not None and not faulty:
        outcome = Outcome.WARN
        place = f"one core of {busy.node} was the limit ({100 * busy.cpu_share:.0f} % busy), not the link"
        remedy = f"see the CPU clock and power settings of {busy.node}"
    elif found.link.slow_end:
        remedy = CABLE.format(found.interface(found.link.slow_end))
    elif work.traffic == RAY and found.lowest(found.tcp).share >= 1 and lossy:
        remedy = CABLE.format(found.interface(_most_resent(found.counted())))
    elif work.traffic == RAY and found.lowest(found.tcp).share >= 1:
        place = "TCP is fast: not the cable, but Ray's own processes, or a store that is short of memory"
        remedy = f"look at `ray status` on {found.names[0]}, and at `df -h /dev/shm` and `top` on both"
    else:
        place, remedy = where(found)
        if _told_half(found) or (lossy and place == UNTOLD):
            place = ""
    detail = "; ".join(filter(None, [work.words(found.names), *signs, place]))
    return Finding(outcome, work.mbps, missed.floor, detail=detail, remedy=remedy)


def _told_half(found: Between) -> str:
    """That an end is half duplex, as its driver says; empty if none does."""
    half = [one for one in found.ends.values() if one.full_duplex is False]
    return f"{half[0].interface} of {half[0].node} is half duplex" if half else ""


def _half_duplex(found: Between, work: Work) -> str:
    """That an end is half duplex, as its driver says, or as TCP both ways at once shows; else empty."""
    alone = min(one.mbps for one in found.tcp if one.company == ALONE)
    shown = (work.traffic, work.company) == (TCP, TOGETHER) and work.mbps < HALF_SHARE * alone
    return _told_half(found) or ("half of its rate alone, as with half duplex" if shown else "")


def tables(recording: Recording) -> Iterator[StageTable]:
    """A row for each pair and kind of traffic; a dash for what was not measured."""
    rows = []
    for pair, rounds in verified_rounds(recording, STAGE):
        own = rounds.only(rounds.same("stage", STAGE)).measured
        by_traffic = {traffic: own.having(traffic=traffic) for traffic in (TCP, *LIBRARIES, RAY)}
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
    resent = resent_share(records)
    yield NO_RATE if resent is None else f"{100 * resent:.3f}"
