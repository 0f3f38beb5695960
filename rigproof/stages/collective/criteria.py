"""Do devices that work together exchange data as fast as they can, and right?"""

from collections.abc import Iterator
from functools import partial
from typing import NoReturn

from rigproof.criteria.criterion import (
    Criterion,
    Finding,
    Limit,
    NotApplicable,
    NotMeasured,
    pass_or_fail,
)
from rigproof.criteria.evidence.fronts import Halt
from rigproof.criteria.evidence.launches import LAUNCH_MS
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.criteria.evidence.slowed import member_slowed_by
from rigproof.profiles.planning.subjects import RIG
from rigproof.records.measurements import Event
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, figure, figure_and_limit
from rigproof.stages.collective.arms import path
from rigproof.stages.collective.endings import RIGHT, excuse, halt_in, of_the_others, wrong_of
from rigproof.stages.collective.pairs import number_of_pairs, units_of
from rigproof.stages.collective.rates import (
    CHAMPION_SHARE,
    FLOOR_GBPS,
    GROUP_SHARE,
    NODES_SHARE,
    NODES_TCP_SHARE,
    PAIR_SHARE,
    SKU_SHARE,
    UNIT,
    Speed,
    because,
    figure_rate,
    is_the_hosts,
    limited,
    not_done,
    size_name,
    speeds,
    speeds_of,
)
from rigproof.stages.collective.stage import (
    ALL_REDUCE,
    ALL_TO_ALL,
    AS_IT_IS,
    BROADCAST,
    ONE_MIB,
    OPERATIONS,
    STAGE,
)
from rigproof.stages.tables import NO_RATE, StageTable, verified_rounds

MOST_VARIABLES = 2  # that a sentence names
TITLES = {
    ALL_REDUCE: "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    BROADCAST: "broadcast",
    ALL_TO_ALL: "all-to-all",
}
EACH_TWO = "each two of it work together"
LIMIT = (
    "every element of every answer is right, and no rank is stuck or dies. Bus bandwidth of the slowest rank "
    "by size: {own}`stages.collective.sku_share` of the SKU file's figure for as many GPUs; else, from 16 "
    "MiB on, `stages.collective.group_share` of the median of the run's other groups of the same "
    "devices{more}; else none. From 16 MiB on, if that is higher, `stages.collective.champion_share` of the "
    "best that the same GPUs did in an accepted run (docs/champions.md), by rounds of `limits.launch_ms` at "
    "least. No rate excuses a wrong answer{pairs}"
)
OF_ALL_REDUCE = (
    ", or, if that is higher, `stages.collective.pair_share` of what its slowest two GPUs copy; of all "
    "nodes, at the largest size, `stages.collective.nodes_share` of what the slowest two that "
    "follow each other exchange in lan.bandwidth by the same library, or "
    "`stages.collective.nodes_tcp_share` of it by TCP"
)
OF_PAIRS = (
    ". In a soak also of each two GPUs of a node, and each two nodes, by themselves (as of a team; of GPUs "
    "that copy as fast, also `stages.collective.group_share` of the median of the other pairs), twice if "
    "they are slow: a ring passes few pairs, and what only another one does, no other level looks for"
)
WRONG = "see `sudo dmesg` for IOMMU and ACS"
WRONG_GPU = "reseat or replace what is to blame"
IN_NODE = "compare `nvidia-smi topo -m` with the node's manual"
SLOW = "see `nvidia-smi topo -m`; between nodes lan.bandwidth, `top` and `ethtool -S`"


def judged(operation: str, team: SharedEvidence) -> Finding:
    """How a team did an operation, and at level soak its pairs an all-reduce. NotMeasured if it did not."""
    found = of_team(operation, team)
    if operation != ALL_REDUCE or found.outcome is Outcome.FAIL:
        return found
    members = tuple(one.subject for one in team.members)
    several, passed = number_of_pairs(members), len(units_of(members))
    if team.evidence.plan.level == "soak":
        return _with_pairs(team, found) if several else found
    if several <= passed:
        return found
    blind = f"its ring passes {passed} of its {several} pairs; only a soak has the others do all-reduces"
    return found._replace(detail=f"{found.detail}; {blind}")


def _with_pairs(team: SharedEvidence, found: Finding) -> Finding:
    """The finding of a team that is fine, with what its pairs did by themselves. NotMeasured without that."""
    tested = [one for one in team.events("pairs_tested") if one.stage == STAGE]
    if not tested:
        raise NotMeasured("its pairs were not tested by themselves")
    event = tested[-1]
    failed, unknown = (event.data.get(name) or [] for name in ("failed", "unknown"))
    if failed:
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        detail = f"{failed[0]}{more}{_blamed(team, why=False)}"
        remedy = SLOW if team.subject == RIG else IN_NODE
        return Finding(Outcome.FAIL, detail=detail, source=EACH_TWO, remedy=remedy, from_s=event.t_s)
    if unknown:
        raise NotMeasured(f"{unknown[0]} were not tested by themselves", team.cause())
    return found._replace(detail=f"{found.detail}; {event.message}")


def of_team(operation: str, team: SharedEvidence) -> Finding:
    """How the whole team did an operation as it is. NotMeasured if it did not."""
    return of_the_others(team, partial(_of_all, operation))


def _of_all(operation: str, team: SharedEvidence) -> Finding:
    """The same of all of its members."""
    if operation != ALL_REDUCE and team.evidence.plan.level == "quick":
        raise NotApplicable("a quick run does one all-reduce alone")
    team.evidence.stage(STAGE)
    if (wrong := wrong_of(team, operation=operation, arm=AS_IT_IS)) is not None:
        message, from_s = wrong
        detail = message + _blamed(team)
        remedy = WRONG_GPU if any(one.data.get("kind") == "gpu" for one in _told(team)) else WRONG
        return Finding(Outcome.FAIL, detail=detail, source=RIGHT, remedy=remedy, from_s=from_s)
    halt = halt_in(team, AS_IT_IS)
    if halt is not None and halt.how != "lost" and _about(halt) == operation:
        excuse(halt)
        return Finding(
            Outcome.FAIL,
            detail="; ".join(filter(None, (halt.words + _blamed(team), _variables(team)))),
            source="every rank gets through",
            remedy=halt.next_step,
            from_s=halt.t_s,
        )
    try:
        return _compared(operation, team, speeds(operation, team))
    except NotMeasured as reason:
        if halt is None or halt.how == "lost":
            raise
        excuse(halt)
        raise NotMeasured(f"the group did not get that far: {halt.words}") from reason


def _blamed(team: SharedEvidence, *, why: bool = True) -> str:
    """Who of the team is to blame, as further tests of the stage found, or that it cannot be told.

    Of several the names alone: with each `why` it would be no sentence that anybody reads.
    """
    own = _told(team)
    names = dict.fromkeys(str(one.data.get("named", one.message)) for one in own if one.kind == "blamed")
    brief = len(names) > 1 or (bool(names) and not why)
    messages = dict.fromkeys(one.message for one in own if not brief or one.kind == "not_told")
    found = [f"to blame {'is' if len(names) == 1 else 'are'} {', '.join(names)}"] if brief else []
    return "".join(f"; {text}" for text in (*found, *messages))


def _told(team: SharedEvidence) -> list[Event]:
    """What further tests of the stage found about the team's members."""
    members = {one.subject for one in team.members}
    events = [*team.evidence.events.of_kind("blamed"), *team.evidence.events.of_kind("not_told")]
    return [one for one in events if one.stage == STAGE and members.issuperset(one.data.get("devices", ()))]


def _about(halt: Halt) -> str:
    """The operation that could not be done; the first one if the group did not even come together."""
    return halt.operation if halt.operation in OPERATIONS else ALL_REDUCE


def _variables(team: SharedEvidence) -> str:
    """What NCCL or gloo were told by variables, and where only some ranks were."""
    devices_of: dict[str, list[str]] = {}
    for event in team.events("rank_variables"):
        stated = event.data.get("variables")
        for name, value in stated.items() if isinstance(stated, dict) else ():
            devices_of.setdefault(f"{name}={value}", []).append(str(event.data.get("device")))
    found, some = [], len(team.members)
    for text, devices in sorted(devices_of.items(), key=lambda one: len(one[1])):
        alone = len(devices) < some  # such a one comes first
        found.append(f"{text} on {', '.join(devices[:MOST_VARIABLES])} alone" if alone else f"{text} is set")
    return ", ".join(found[:MOST_VARIABLES])


def _compared(operation: str, team: SharedEvidence, found: list[Speed]) -> Finding:
    """The size whose rate is the smallest share of its limit; without any limit the largest size."""
    judged, others = limited(operation, team, found), _others(found)
    undone = not_done(operation, team, found)
    rates = tuple(figure_rate(operation, team, one) for one in found if one.mib >= ONE_MIB)
    if not judged:
        largest = found[-1]
        why = "hosts were late: not compared" if largest.host_paced else "nothing to compare it with yet"
        detail = "; ".join(filter(None, (f"{largest.mib} MiB", others, undone, why)))
        return Finding(Outcome.NO_LIMIT, largest.gbps, detail=detail, rates=rates)
    paced = [pair for pair in judged if is_the_hosts(team, *pair)]
    one, limit = min(judged, key=lambda pair: (pair in paced, pair[0].gbps / pair[1].value))
    good = one.gbps >= limit.value
    if paced and (good or (one, limit) in paced):
        _raise_paced(*paced[0])
    other_half_holds = any(other.mib == one.mib and other.gbps >= its.value for other, its in judged)
    half = f", {one.elements} numbers" if other_half_holds and not good else ""
    detail = f"{one.mib} MiB{half}" + ("" if good else because(team) + _blamed(team))
    parts = (detail, others, undone if good else _variables(team))
    said = "; ".join(filter(None, parts))
    return pass_or_fail(one.gbps, limit, good=good, detail=said, remedy=SLOW, rates=rates)


def _raise_paced(speed: Speed, limit: Limit) -> NoReturn:
    figures = ", ".join(figure_and_limit(speed.gbps, limit.value, UNIT, "at_least"))
    pace = f"while a host took {figure(1e3 * speed.seconds, 'ms')} to queue each"
    raise NotMeasured(f"{figures}: {speed.mib} MiB, {pace}: its pace, not the GPUs'")


def _others(found: list[Speed]) -> str:
    """What one operation on 4 bytes takes."""
    small = next((one for one in found if not one.mib), None)
    return f"4 B take {figure(small.seconds * 1e6, 'µs')}" if small is not None else ""


def _criterion(operation: str) -> Criterion:
    judge = partial(judged, operation)
    title = TITLES[operation]
    judge.__doc__ = (
        f"The devices of each node with several, and of a rig of several nodes, do {title}s together by "
        "torch.distributed: NCCL on GPUs, gloo on CPUs. Operands are whole numbers, so that every rank knows "
        "the exact answer; all of its elements are compared. A rank that is stuck is named by how far each "
        "came, and one whose process dies by its signal. The rate is bus bandwidth as nccl-tests counts it."
    )
    own = "`stages.collective.floor_gbps`; else " if operation == ALL_REDUCE else ""
    own_keys = (FLOOR_GBPS,) if own else ()
    more_keys = (PAIR_SHARE, NODES_SHARE, NODES_TCP_SHARE) if own else ()
    more = OF_ALL_REDUCE if own else ""
    return Criterion(
        f"collective.{operation}",
        title=title,
        scope="team",
        unit=UNIT,
        direction="at_least",
        limit=LIMIT.format(own=own, more=more, pairs=OF_PAIRS if own else ""),
        limits=(*own_keys, SKU_SHARE, GROUP_SHARE, *more_keys, CHAMPION_SHARE, LAUNCH_MS),
        severity="reseat",
        remedy=SLOW,
        unmeasured="too few verified rounds of a rank, a rank that a signal ended or stopped, or that others "
        "kept from the CPU, or an earlier operation that did not end. Not applicable to a quick run, unless "
        "it is the all-reduce",
        stages=(STAGE,),
        rate=True,
        caused_by_others=member_slowed_by,
    )(judge)


CRITERIA = (*map(_criterion, OPERATIONS), path)


def tables(recording: Recording) -> Iterator[StageTable]:
    """A row for each team, operation and size: the slowest rank's bus bandwidth, and the time of one."""
    rows = []
    for subject, verified in verified_rounds(recording, STAGE):
        own = verified.measured.having(group="", arm=AS_IT_IS)
        for (operation, mib), rounds in sorted(own.by_labels("operation", "mib").items(), key=_in_order):
            ranks = [rounds.only(rounds.same("worker", one)) for one in rounds.distinct("worker")]
            backend = "/".join(sorted(map(str, rounds.distinct_labels("backend"))))
            what = (subject, TITLES.get(operation, str(operation)), size_name(mib))
            for one in speeds_of(mib, ranks):
                rate = figure(one.gbps) if mib else NO_RATE
                by = f"{backend}, {len(ranks)} ranks"
                rows.append((*what, one.elements, by, rate, figure(one.seconds * 1e6)))
    yield StageTable(
        section="Collectives",
        title="Collectives",
        columns=("Group", "Operation", "Size", "Numbers", "By", f"bus bandwidth, {UNIT}", "one takes, µs"),
        rows=tuple(rows),
        labels=5,
        note="Of the slowest rank. Bus bandwidth as nccl-tests counts it; every element of every answer was "
        "compared.",
    )


def _in_order(item: tuple[tuple[str, int], Rounds]) -> tuple[int, int]:
    operation, mib = item[0]
    return OPERATIONS.index(operation) if operation in OPERATIONS else len(OPERATIONS), mib
