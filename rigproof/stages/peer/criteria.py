"""Do the GPUs of a host copy to each other as fast as what connects them can, and is what arrives right?"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import median
from typing import Any

from rigproof.criteria.criterion import Criterion, Finding, Limit, NotMeasured, Trouble, pass_or_fail
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.link import FIELDS, link_at_most, link_gbps, link_under_load
from rigproof.criteria.evidence.rounds import FEWEST_ROUNDS, Rounds
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.criteria.evidence.slowed import member_slowed_by
from rigproof.devices.further import Further
from rigproof.profiles.planning.subjects import subjects
from rigproof.profiles.tables.limits import LIMITS
from rigproof.records.measurements import Event
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, count_of, figure
from rigproof.stages.kind import StageWork
from rigproof.stages.peer.floors import (
    BOTH_SHARE,
    FLOOR_GBPS,
    HOST_SHARE,
    KERNEL_SHARE,
    NVLINK_GBPS,
    NVLINK_SHARE,
    NVLINKS,
    PCIE_SHARE,
    UNIT,
    floor_of_pair,
    limit_of,
    members_of,
    nvlink_gbps,
    nvlinks_between,
)
from rigproof.stages.peer.stage import (
    ARMS,
    BACK,
    BOTH,
    ENGINE,
    FIRST_ARMS,
    KIND,
    STAGE,
    THERE,
    WORDS,
    Arm,
    PeerLink,
)
from rigproof.stages.tables import NO_RATE, StageTable, rate_of, verified_rounds

PEER_SHARE = KIND.key(lambda own: own.peer_share)
CEILING_SHARE = LIMITS.key(lambda limits: limits.ceiling_share)

MOST_LINKS = 36  # of a GPU, by NVML
SHORTEST_S = 1e-4  # of a copy: to queue it takes a tenth of that
FEWEST_OTHERS = 2  # pairs to be compared with
SHOWN = 6  # pairs of which a table has a row each
LABELS = 2  # its first columns: the pair, and how it is connected
WRONG = "do not train on both: switch IOMMU and ACS off, or set NCCL_P2P_DISABLE=1"
WRONG_GPU = "do not train on {gpu}: reseat it and its riser, then test it in another slot"
SLOW = "see `nvidia-smi topo -m` and `nvidia-smi nvlink -s` on {host}; reseat both cards, or their bridge"
SLOW_HOST = "see transfer.h2d and d2h of both, `nvidia-smi topo -p2p r`, IOMMU, ACS, BAR1 on {host}"
LIKELY = "IOMMU, ACS, a small BAR1, or a consumer card's driver"


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate of a pair that is held against a limit, and how it was copied."""

    words: str
    gbps: float
    limit: Limit
    spans: tuple[tuple[float, float], ...]

    @property
    def reached(self) -> float:
        """The part of its limit."""
        return self.gbps / self.limit.value


@Criterion(
    "transfer.peer",
    title="peer copies",
    scope="peers",
    unit=UNIT,
    direction="at_least",
    limit="no wrong word in any copy. One way at least `stages.peer.floor_gbps`, if the rig states it. Else, "
    "over NVLink, `stages.peer.nvlink_share` of what the links between the two carry "
    "(`stages.peer.nvlink_gbps` each), with those that are down although `limits.nvlinks` or the SKU file "
    "promises them; directly over PCIe, `stages.peer.pcie_share` of the slower link; through the host's "
    "memory, `stages.peer.host_share` of the slowest transfer of the two alone, or else of the slower link. "
    "By a kernel's stores `stages.peer.kernel_share` of that; both ways at once `stages.peer.both_share` of "
    "twice that. And each of these rates at least `stages.peer.peer_share` of the median of the other pairs "
    "of such GPUs that are connected in the same way",
    limits=(
        FLOOR_GBPS,
        NVLINK_SHARE,
        NVLINK_GBPS,
        NVLINKS,
        PCIE_SHARE,
        HOST_SHARE,
        BOTH_SHARE,
        KERNEL_SHARE,
        PEER_SHARE,
        CEILING_SHARE,
    ),
    severity="reseat",
    remedy=SLOW.format(host="the host"),
    unmeasured="too few verified copies: the process that sees all GPUs of the host did not start, hung or "
    "died (the verdict says between which two), or a GPU was missing; or a rate over `limits.ceiling_share` "
    "of what connects the two",
    idling="not measured",
    applies_to_cpu=False,
    stages=(STAGE,),
    rate=True,
    caused_by_others=member_slowed_by,
)
def peer(pair: SharedEvidence) -> Finding:
    """Every two GPUs of a host copy to each other, one pair after the other: there, back, and both at once.

    By copy engine and, where they reach each other directly, by a kernel that stores into the other's memory.
    Every word of every copy is compared at its target with what it should be, over a cleared target. Where
    there is no direct access, which is no fault of a consumer card, the copies go through the host's memory.
    The figure is the slower one of both ways. A GPU that is in all pairs that fail is named. If those are all
    of its pairs, and all others are fine, GPUs exchange data without it later.
    """
    found = _judged(pair)
    if found.outcome is not Outcome.FAIL or (culprit := _culprit(pair)) is None:
        return found
    detail, remedy = found.detail, found.remedy
    if found.measured is None:  # which word differs says less than which GPU
        detail, remedy = detail.partition(", first at")[0], WRONG_GPU.format(gpu=culprit)
    return found._replace(detail=f"{detail}; {culprit} is in all pairs that fail", remedy=remedy)


Findings = dict[tuple[str, ...], Finding | None]  # by the members of a pair; None if it was not measured


def _culprit(pair: SharedEvidence) -> str | None:
    """The one GPU that all failing pairs of the host have in common; None if there is none, or one pair."""
    failing = [set(one) for one in _failing(_on_host(pair.evidence, members_of(pair)[0].node_name))]
    common = set.intersection(*failing) if len(failing) > 1 else set()
    return common.pop() if len(common) == 1 else None


def _failing(found: Findings) -> dict[tuple[str, ...], Finding]:
    """The pairs that fail."""
    known = {members: one for members, one in found.items() if one is not None}
    return {members: one for members, one in known.items() if one.outcome is Outcome.FAIL}


def _on_host(evidence: Evidence, host: str) -> Findings:
    """Each pair of the host by itself."""
    its = {one.subject for one in evidence.devices_on(host)}

    def found() -> Findings:
        pairs = [one for one in subjects(evidence.loaded, "peers") if its.issuperset(one.members)]
        return {one.members: _by_itself(evidence.shared("peers", one.text)) for one in pairs}

    return evidence.cached(("pairs", host), found)


def _by_itself(pair: SharedEvidence) -> Finding | None:
    """None if it was not measured, or others may have slowed it."""
    try:
        found = _judged(pair)
        fails = found.outcome is Outcome.FAIL
        return None if fails and member_slowed_by(pair, Trouble(found, (STAGE,))) else found
    except NotMeasured:
        return None


def spoiler(evidence: Evidence, host: str, lost: Collection[str] = ()) -> str | None:
    """The GPU of which all pairs fail, while all pairs without it are fine; None if there is no such one.

    None, too, if all that fails are rates that miss their limits by so little that they are measured again.
    Pairs of GPUs that are `lost` do not count.
    """
    share = evidence.loaded.rig.limits.marginal_share or 0.0
    found = {pair: one for pair, one in _on_host(evidence, host).items() if not set(lost) & set(pair)}
    bad = _failing(found)
    if len(bad) < 2 or None in found.values() or all(_narrow(one, share) for one in bad.values()):
        return None
    gpus = [one.subject for one in evidence.devices_on(host) if one.subject not in lost]
    return next((gpu for gpu in gpus if bad.keys() == {one for one in found if gpu in one}), None)


def _narrow(found: Finding, share: float) -> bool:
    """Whether a rate misses its limit by less than that share of it."""
    return found.limit is not None and (found.measured or 0.0) > (1 - share) * found.limit.value


def further(work: StageWork, recording: Recording) -> Further | None:
    """Events about the GPUs that spoil what others exchange with them, as this attempt showed."""
    evidence = Evidence(recording.since_the_beginning_of(STAGE), work.loaded)
    lost = work.devices.keys() - work.gpus.keys()
    blamed = [(host, gpu) for host in work.on_host if (gpu := spoiler(evidence, host, lost)) is not None]
    return Further(events=tuple(_said(host, gpu) for host, gpu in blamed)) if blamed else None


def _said(host: str, gpu: str) -> Event:
    message = f"{gpu} is to blame: all its pairs fail transfer.peer, no others"
    data: dict[str, Any] = {"kind": "gpu", "devices": [gpu], "named": gpu, "apart": [gpu]}
    return Event(0.0, "blamed", host, message, STAGE, data=data)


def _judged(pair: SharedEvidence) -> Finding:
    """The pair by itself."""
    host = members_of(pair)[0].node_name
    if (wrong := _wrong(pair)) is not None:
        return wrong
    link, rounds = _link(pair), _rounds(pair)
    rates = _rates(pair, link, rounds)
    _require_possible(pair, link, rates)
    one_way = min(((by, way) for by, way in rates if by == ENGINE and way != BOTH), key=rates.__getitem__)
    connected = _connected(link)
    floor = floor_of_pair(pair, link)
    held, kind = [], _kind(pair, link)
    for (by, way), rate in rates.items():
        own = None if floor is None else limit_of(pair, floor, by, way)
        limits = filter(None, (own, _by_others(pair, kind, (by, way), rate)))
        held += [Rate(WORDS[by, way], rate, limit, _spans(pair, rounds, by, way)) for limit in limits]
    failed = [one for one in held if one.reached < 1]
    if failed:
        worst = min(failed, key=attrgetter("reached"))
        remedy = (SLOW if link.direct else SLOW_HOST).format(host=host)
        return pass_or_fail(
            worst.gbps,
            worst.limit,
            good=False,
            detail=f"{worst.words}, {_over(link)}",
            remedy=remedy,
            over=worst.spans,
        )
    if floor is None:
        why = "no floor: what connects the two is not known"
        return Finding(Outcome.NO_LIMIT, rates[one_way], detail=f"{connected}; {why}")
    others_s = [f"{WORDS[arm]} {figure(rate)}" for arm, rate in rates.items() if arm != one_way]
    return pass_or_fail(rates[one_way], floor, good=True, detail="; ".join([connected, ", ".join(others_s)]))


# What was measured


def _wrong(pair: SharedEvidence) -> Finding | None:
    """The failure if a word was wrong in any copy, of a warm-up too."""
    events = [one for one in pair.events("wrong_result") if one.stage == STAGE]
    unverified = pair.unverified(STAGE)
    if not events and not len(unverified):
        return None
    from_s = events[0].t_s if events else float(unverified.t_s[0])
    detail = events[0].message if events else f"wrong words in {count_of(len(unverified), 'copies')}"
    source = "what arrives is what was sent"
    return Finding(
        Outcome.FAIL, detail=detail, source=source, remedy=WRONG, severity="isolate", from_s=from_s
    )


def _rounds(pair: SharedEvidence) -> Rounds:
    """The measured, verified copies of the pair. NotMeasured, with the cause, if there are none."""
    try:
        return pair.rounds(STAGE).verified.measured
    except NotMeasured as reason:
        raise NotMeasured(reason.reason, "" if pair.cause() else _cause(pair)) from None


def _link(pair: SharedEvidence) -> PeerLink:
    """How they are connected, as the process that copied found it. NotMeasured if it did not say so once."""
    found = [one for one in pair.evidence.records(PeerLink, pair.subject) if one.stage == STAGE]
    if len(found) > 1:
        raise NotMeasured(f"{len(found)} records of how the two are connected, where one is due")
    if not found:
        pair.evidence.stage(STAGE)
        raise NotMeasured("nothing was copied between the two", pair.cause() or _cause(pair))
    links = found[0].nvlinks
    if links is not None and not 0 <= links <= MOST_LINKS:
        raise NotMeasured(f"{links} NVLinks between the two are said to be active, which cannot be")
    return found[0]


def _cause(pair: SharedEvidence) -> str:
    """What happened to the host's copies as a whole: where they were when they ended; empty if nothing."""
    host, events = members_of(pair)[0].node_name, pair.evidence.events
    failed = (one for one in events.of(host, "crew_failed") if one.stage == STAGE)
    ended = next((one for one in (*failed, *events.of(host, "peers_ended"))), None)
    if ended is None:
        return ""
    begun = [one for one in events.of_kind("pair_begun") if _before(one, ended, host)]
    last = max(begun, key=attrgetter("t_s"), default=None)
    where = f", while {last.subject} copied" if last is not None and ended.kind == "peers_ended" else ""
    return f"{ended.message}{where} (at t={ended.t_s:.0f} s)"


def _before(begun: Event, ended: Event, host: str) -> bool:
    return begun.subject.startswith(f"{host}/") and begun.t_s <= ended.t_s


def _rates(pair: SharedEvidence, link: PeerLink, rounds: Rounds) -> dict[Arm, float]:
    """GB/s of each arm that is due. NotMeasured if one has too few copies."""
    found = {}
    for by, way in _planned(pair):
        own = rounds.having(by=by, way=way)
        if len(own) >= FEWEST_ROUNDS:
            each_s = median(own.seconds.tolist())
            if each_s < SHORTEST_S:
                what = f"copies of {link.mib} MiB took {1000 * each_s:.2g} ms each, too little for a rate"
                raise NotMeasured(
                    f"{what}: there was no memory for more, or other work slowed the first ones"
                )
            found[by, way] = own.rate()
        elif by == ENGINE or link.direct:
            why = f"{count_of(len(own), 'verified copies')} {WORDS[by, way]}"
            raise NotMeasured(why, pair.cause() or _cause(pair))
    return found


def _planned(pair: SharedEvidence) -> tuple[Arm, ...]:
    """The arms that the host's process was told to measure."""
    return FIRST_ARMS if any("arms" not in one for one in pair.evidence.specs(STAGE)) else ARMS


def _spans(pair: SharedEvidence, rounds: Rounds, by: str, way: str) -> tuple[tuple[float, float], ...]:
    return tuple(rounds.having(by=by, way=way).unbroken(pair.evidence.kinds))


def _require_possible(pair: SharedEvidence, link: PeerLink, rates: dict[Arm, float]) -> None:
    """NotMeasured if a rate is over what all that connects the two can carry together."""
    share = members_of(pair)[0].optional_limit(CEILING_SHARE)
    nvlink = nvlink_gbps(pair)
    best = [[link_at_most(one, name) for name in FIELDS] for one in members_of(pair)]
    known = [link_gbps(generation, width) for generation, width in best if generation and width]
    if share is None or len(known) < len(best) or link.nvlinks is None or (link.nvlinks and not nvlink):
        return  # not even the best is known
    most = max(min(known), link.nvlinks * (0.0 if nvlink is None else nvlink.value))
    for (by, way), rate in rates.items():
        ways = 2 if way == BOTH else 1
        if rate > share.value * ways * most:
            raise NotMeasured(
                f"{figure(rate, UNIT)} {WORDS[by, way]} is more than {share.value:g} × the "
                f"{figure(ways * most, UNIT)} that what connects the two carries: a measurement error"
            )


Kind = tuple[object, ...]


def _by_others(pair: SharedEvidence, kind: Kind | None, arm: Arm, rate: float) -> Limit | None:
    """A share of the median of the other pairs of this kind; None if there are too few. `rate`: its own."""
    every = pair.evidence.cached("peer rates", lambda: _all_rates(pair))
    others = [] if kind is None else [*every.get((kind, arm), ())]
    if len(others) <= FEWEST_OTHERS:
        return None
    others.remove(rate)
    share = members_of(pair)[0].limit(PEER_SHARE)
    return Limit(median(others), f"the median of {len(others)} other pairs").times(
        share.value, f" × {share.value:g}; {share.source}"
    )


def _kind(pair: SharedEvidence, link: PeerLink) -> Kind | None:
    """What pairs that can be compared have in common; None if it is not known how the two are connected.

    By NVLink, the links that there should be: so a pair that lost some is compared with those that have all.
    """
    models = sorted(one.device.sku_stem or one.identity.name for one in members_of(pair))
    links = nvlinks_between(pair, link)
    if links:
        return (*models, link.switched, links)
    found = [link_under_load(one, STAGE) for one in members_of(pair)]
    known = sorted(one for one in found if one is not None)
    return (*models, link.direct, link.path, *known) if link.path and len(known) == len(found) else None


def _all_rates(pair: SharedEvidence) -> dict[tuple[Kind, Arm], list[float]]:
    """What the pairs of each kind that is known reached in each arm."""
    found: dict[tuple[Kind, Arm], list[float]] = defaultdict(list)
    for one in subjects(pair.evidence.loaded, "peers"):
        other = pair.evidence.shared("peers", one.text)
        try:
            link, rounds = _link(other), _rounds(other)
        except NotMeasured:
            continue
        if (kind := _kind(other, link)) is None:
            continue
        for by, way in ARMS:
            if len(own := rounds.having(by=by, way=way)) >= FEWEST_ROUNDS:
                found[kind, (by, way)].append(own.rate())
    return found


def _connected(link: PeerLink) -> str:
    """How the two are connected."""
    if link.direct:
        return _over(link)
    return f"{_over(link)}, no direct access ({link.why or LIKELY}; `nvidia-smi topo -p2p r`)"


def _over(link: PeerLink) -> str:
    if not link.direct:
        return "through the host's memory"
    if link.nvlinks:
        return f"over {count_of(link.nvlinks, 'NVLinks')}"
    if link.nvlinks is None:
        return "directly, over links that NVML does not name"
    return "directly" + (f" over {link.path}" if link.path else "")


CRITERIA = (peer,)


def tables(recording: Recording) -> Iterator[StageTable]:
    """One row per pair with a column for each arm; of many pairs the slowest ones, and the median."""
    rows: list[tuple[float, tuple[str, ...]]] = []
    for subject, verified in verified_rounds(recording, STAGE):
        if len(own := verified.measured):
            ways = [one.rate() for way in (THERE, BACK) if len(one := own.having(by=ENGINE, way=way))]
            links = recording.of(PeerLink).of(subject)
            cells = [rate_of(own, by=by, way=way) for by, way in ARMS]
            rows.append((min(ways, default=0.0), (subject, _over(links[-1]) if links else "", *cells)))
    note = "By the devices' own clocks; every word of every copy was compared at its target."
    shown = [row for _, row in rows]
    if len(rows) > SHOWN:
        slowest = sorted(rows, key=lambda one: one[0])[:SHOWN]
        shown = [row for _, row in slowest]
        shown.append((f"median of {len(rows)} pairs", "", *_medians([row for _, row in rows])))
        note = f"The {SHOWN} slowest pairs. {note}"
    yield StageTable(
        section="Transfers",
        title="Copies between GPUs",
        columns=("Pair", "Copies go", *(f"{WORDS[arm]}, {UNIT}" for arm in ARMS)),
        rows=tuple(shown),
        labels=LABELS,
        note=note,
    )


def _medians(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for column in range(LABELS, LABELS + len(ARMS)):
        rates = [float(row[column]) for row in rows if row[column] != NO_RATE]
        yield figure(median(rates)) if rates else NO_RATE
