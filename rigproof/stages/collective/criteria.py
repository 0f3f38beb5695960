"""Do devices that work together exchange data as fast as they can, and right?"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import NoReturn

from rigproof.criteria.criterion import (
    Criterion,
    Disturbed,
    Finding,
    Limit,
    NotApplicable,
    NotMeasured,
    Trouble,
    pass_or_fail,
)
from rigproof.criteria.evidence.fronts import Halt, halt_of
from rigproof.criteria.evidence.launches import LAUNCH_MS
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.criteria.evidence.slowed import rate_slowed_by
from rigproof.profiles.planning.subjects import RIG, Subject
from rigproof.records.measurements import Event
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, count_of, figure, figure_and_limit
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
    devices_of,
    figure_rate,
    limited,
    speeds,
)
from rigproof.stages.collective.stage import (
    ALL_REDUCE,
    ALL_TO_ALL,
    ARMS,
    AS_IT_IS,
    BROADCAST,
    KIND,
    ONE_MIB,
    OPERATIONS,
    PROTOCOLS,
    STAGE,
)
from rigproof.stages.tables import NO_RATE, StageTable, verified_rounds

ARM_SHARE = KIND.key(lambda own: own.arm_share)

WITHOUT_P2P = next(iter(ARMS))
MOST_VARIABLES = 2  # that a sentence names
TITLES = {
    ALL_REDUCE: "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    BROADCAST: "broadcast",
    ALL_TO_ALL: "all-to-all",
}
EACH_TWO = "each two of it work together"
RIGHT = "every element of every answer is what arithmetic says"
LIMIT = (
    "every element of every answer is right, and no rank is stuck or dies. Bus bandwidth of the slowest rank "
    "by size: {own}`stages.collective.sku_share` of the SKU file's figure for as many GPUs; else "
    "`stages.collective.group_share` of the median of the run's other groups of the same devices{more}; "
    "else none. From 16 MiB on, if that is higher, `stages.collective.champion_share` of the best that the "
    "same GPUs did in an accepted run (docs/champions.md), by rounds of `limits.launch_ms` at least. "
    "No rate excuses a wrong answer{pairs}"
)
OF_ALL_REDUCE = (
    "; else, inside a node, `stages.collective.pair_share` of what its slowest two GPUs copy; of all nodes, "
    "at the largest size, `stages.collective.nodes_share` of what the slowest two that follow each other "
    "exchange in lan.bandwidth by the same library, or `stages.collective.nodes_tcp_share` of it by TCP"
)
OF_PAIRS = (
    ". In a soak also of each two GPUs of a node, and each two nodes, by themselves (as of a team; of GPUs "
    "that copy as fast, also `stages.collective.group_share` of the median of the other pairs), twice if "
    "they are slow: a ring passes few pairs, and what only another one does, no other level looks for"
)
WRONG = "see `dmesg` for IOMMU and ACS"
IN_NODE = "compare `nvidia-smi topo -m` with the node's manual"
SLOW = f"{IN_NODE}; between nodes `export` what lan.route prints"
PATH = "look for ACS and IOMMU (`dmesg | grep -i -e iommu -e acs`), switch both off in the BIOS"
NO_WAY = "see whom collective.all_reduce names: each way between the cards fails"
MORE_MEMORY = "free memory on that device, or lower `stages.collective.large_mib`, and run again"


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
    return _of_the_others(team, partial(_of_all, operation))


def _of_the_others(team: SharedEvidence, judge: Callable[[SharedEvidence], Finding]) -> Finding:
    """The finding about a team; if it had to do without some members, a failure of the others.

    NotMeasured, with what the others did, if they do not fail: the team is all that the profile promises.
    """
    apart = _set_apart(team)
    left = tuple(one.subject for one in team.members if one.subject not in apart)
    if not apart or len(left) < 2:
        return judge(team)
    found = judge(SharedEvidence(team.evidence, Subject(team.subject, left)))
    if found.outcome is Outcome.FAIL:
        return found
    why = next(iter(apart.values()))
    if len(apart) > 1:
        why = f"{STAGE} exchanges data without {', '.join(apart)}, which are to blame"
    raise NotMeasured(f"{why}; the other {len(left)} {_in_words(found)}")


def _set_apart(team: SharedEvidence) -> dict[str, str]:
    """The members that the team had to do without in this attempt at the stage, and why."""
    ran, members = team.evidence.recording.stages.get(STAGE), {one.subject for one in team.members}
    if ran is None:
        return {}
    events = [one for one in team.evidence.events.of_kind("set_apart") if one.stage == STAGE]
    return {one.subject: one.message for one in events if one.t_s <= ran.start_s and one.subject in members}


def _in_words(found: Finding) -> str:
    """How those did that a finding is about: `pass: 216 GB/s, limit ≥ 184 GB/s`."""
    told = {Outcome.PASS: "pass", Outcome.WARN: "warn"}.get(found.outcome, "have no limit")
    if found.measured is None:
        return told
    if found.limit is None:
        return f"{told}: {figure(found.measured, UNIT)}"
    return f"{told}: {', '.join(figure_and_limit(found.measured, found.limit.value, UNIT, 'at_least'))}"


def _of_all(operation: str, team: SharedEvidence) -> Finding:
    """The same of all of its members."""
    if operation != ALL_REDUCE and team.evidence.plan.level == "quick":
        raise NotApplicable("a quick run does one all-reduce alone")
    team.evidence.stage(STAGE)
    if (wrong := _wrong(team, operation=operation, arm=AS_IT_IS)) is not None:
        message, from_s = wrong
        detail = message + _blamed(team)
        return Finding(Outcome.FAIL, detail=detail, source=RIGHT, remedy=WRONG, from_s=from_s)
    halt = _halt(team, AS_IT_IS)
    if halt is not None and halt.how != "lost" and _about(halt) == operation:
        _excuse(halt)
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
        _excuse(halt)
        raise NotMeasured(f"the group did not get that far: {halt.words}") from reason


def _wrong(team: SharedEvidence, **which: str) -> tuple[str, float] | None:
    """The first wrong answer with such `data` or labels, in words, and its time; of the whole team first."""
    events = [one for one in team.events("wrong_result") if one.stage == STAGE]
    for event in sorted(events, key=lambda one: bool(one.data.get("group"))):
        if all(event.data.get(key) == value for key, value in which.items()):
            return event.message, event.t_s
    everything = team.evidence.rounds(team.subject)
    unverified = everything.only(everything.same("stage", STAGE) & ~everything.same("verified", True))
    rounds = unverified.having(**which)
    if not len(rounds):
        return None
    operation, from_s = rounds.labels("operation")[0], float(rounds.t_s[0])
    return f"wrong answers in {count_of(len(rounds), 'rounds')} of {operation}", from_s


def _halt(team: SharedEvidence, arm: str) -> Halt | None:
    """What ended an arm early: a worker that is lost in a later turn takes nothing from the ones before."""
    turns = [*_asked(team, "arm_tried"), *_asked(team, "groups_tested")]
    own = next((one for one in turns if one.data.get("arm") == arm), None)
    begin_s = -inf if own is None else own.t_s
    end_s = min((one.t_s for one in turns if one.t_s > begin_s), default=inf)
    return halt_of(team, STAGE, begin_s=begin_s, end_s=end_s, group="", arm=arm)


def _asked(team: SharedEvidence, kind: str) -> list[Event]:
    """What the stage asked for in this attempt, after the turns of its plan."""
    begin_s = team.evidence.stage(STAGE).start_s
    return [one for one in team.evidence.events.of_kind(kind) if one.stage == STAGE and one.t_s >= begin_s]


def _excuse(halt: Halt) -> None:
    """Disturbed if no card or link did it."""
    if halt.by_others:
        raise Disturbed(halt.words, MORE_MEMORY if halt.how == "memory" else halt.next_step, halt.t_s)


def _blamed(team: SharedEvidence, *, why: bool = True) -> str:
    """Who of the team is to blame, as further tests of the stage found, or that it cannot be told.

    Of several the names alone: with each `why` it would be no sentence that anybody reads.
    """
    members = {one.subject for one in team.members}
    events = [*team.evidence.events.of_kind("blamed"), *team.evidence.events.of_kind("not_told")]
    own = [one for one in events if one.stage == STAGE and members.issuperset(one.data.get("devices", ()))]
    names = dict.fromkeys(str(one.data.get("named", one.message)) for one in own if one.kind == "blamed")
    brief = len(names) > 1 or (bool(names) and not why)
    messages = dict.fromkeys(one.message for one in own if not brief or one.kind == "not_told")
    found = [f"to blame {'is' if len(names) == 1 else 'are'} {', '.join(names)}"] if brief else []
    return "".join(f"; {text}" for text in (*found, *messages))


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
    rates = tuple(figure_rate(operation, team, one) for one in found if one.mib >= ONE_MIB)
    if not judged:
        largest = found[-1]
        detail = f"{largest.mib} MiB; {others}" if others else f"{largest.mib} MiB"
        detail += "; nothing to compare it with yet"
        return Finding(Outcome.NO_LIMIT, largest.gbps, detail=detail, rates=rates)
    paced = [pair for pair in judged if _is_the_hosts(team, *pair)]
    one, limit = min(judged, key=lambda pair: (pair in paced, pair[0].gbps / pair[1].value))
    good = one.gbps >= limit.value
    if paced and (good or (one, limit) in paced):
        _raise_paced(*paced[0])
    detail = f"{one.mib} MiB" + ("" if good else because(team) + _blamed(team))
    parts = (detail, others, "" if good else _variables(team))
    said = "; ".join(filter(None, parts))
    return pass_or_fail(one.gbps, limit, good=good, detail=said, remedy=SLOW, rates=rates)


def _is_the_hosts(team: SharedEvidence, speed: Speed, limit: Limit) -> bool:
    """Whether a low rate shows how fast a host queues operations. One that takes long is too slow itself."""
    most = devices_of(team)[0].optional_limit(LAUNCH_MS)
    quick = most is not None and 1e3 * speed.seconds < most.value
    return speed.gbps < limit.value and speed.host_paced and quick


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
        unmeasured="too few verified rounds of a rank, a rank that a signal ended or stopped, or an earlier "
        "operation that did not end. Not applicable to a quick run, unless it is the all-reduce",
        stages=(STAGE,),
        rate=True,
        caused_by_others=_disturbed,
    )(judge)


def _disturbed(team: SharedEvidence, trouble: Trouble) -> str | None:
    """Explains a low rate by strangers on one of the devices, or by who took its host's CPU time."""
    return next(filter(None, (rate_slowed_by(one, trouble) for one in devices_of(team))), None)


@Criterion(
    "collective.path",
    title="path between GPUs",
    scope="team",
    unit=UNIT,
    direction="at_least",
    limit="every arm gives right answers and ends. As it is, all-reduces reach `stages.collective.arm_share` "
    "of the fastest arm; less warns",
    limits=(ARM_SHARE,),
    severity="reseat",
    remedy=PATH,
    unmeasured="an arm has too few verified rounds, or a signal ended it. Not applicable to gloo, between "
    "nodes, and to a run without arms in which nothing failed",
    idling="not measured",
    stages=(STAGE,),
)
def path(team: SharedEvidence) -> Finding:
    """A node's GPUs do all-reduces as it is, without P2P, and without shared memory too: then by sockets.

    So a failure tells which way between them is broken, and any arm may be the one that lies. Extended runs
    have these arms, others after a failure; then each of NCCL's protocols is tried alone, too.
    """
    if team.subject == RIG:
        raise NotApplicable("between nodes there is neither P2P nor shared memory")
    if any(one.is_cpu for one in devices_of(team)):
        raise NotApplicable("gloo has no other ways to choose from")
    return _of_the_others(team, _path)


def _path(team: SharedEvidence) -> Finding:
    team.evidence.stage(STAGE)
    ran = [arm for arm in (*ARMS, *PROTOCOLS) if _ran(team, arm)]
    troubles, excuses = _troubles(team, (AS_IT_IS, *ran))
    if troubles:  # whatever ended another arm
        bad = [f"{arm}: {found}" for arm, found in troubles.items()]
        fine = measured(team, [arm for arm in (AS_IT_IS, *ran) if arm not in troubles])
        if troubles.keys() >= {AS_IT_IS, *ARMS}:
            detail = "; ".join([*bad, "so it is none of the ways between them"])
            return Finding(Outcome.FAIL, detail=detail, source=RIGHT, remedy=NO_WAY)
        return Finding(Outcome.FAIL, detail="; ".join([*bad, *filter(None, [_way_out(fine)])]), source=RIGHT)
    if excuses:
        raise excuses[0]
    if not ran and not arms_of(team):
        raise NotApplicable("this level has arms only after a failure")
    rates = _at_one_size({arm: speeds(ALL_REDUCE, team, arm) for arm in (AS_IT_IS, *ARMS)})
    rates |= measured(team, (AS_IT_IS, *ran))
    own, best = rates[AS_IT_IS].gbps, max(one.gbps for one in rates.values())
    share = devices_of(team)[0].limit(ARM_SHARE)
    told = ", ".join(f"{arm} {figure(one.gbps)}" for arm, one in rates.items())
    detail = f"{rates[AS_IT_IS].mib} MiB {told}"
    if own < share.value * best:
        limit = share.times(best, " of the fastest arm")
        return Finding(Outcome.WARN, own, limit, f"{detail}; {_way_out(rates)}", remedy=PATH)
    if share.value * own < rates[WITHOUT_P2P].gbps:
        detail += "; P2P is not used, or gives nothing"
    return Finding(Outcome.PASS, own, detail=detail)


def measured(team: SharedEvidence, arms: Sequence[str]) -> dict[str, Speed]:
    """The rates of those of the arms that were measured, at one size; none if they have none in common."""
    found = {}
    for arm in arms:
        with suppress(NotMeasured):
            found[arm] = speeds(ALL_REDUCE, team, arm)
    try:
        return _at_one_size(found)
    except NotMeasured:
        return {}


def _at_one_size(found: Mapping[str, list[Speed]]) -> dict[str, Speed]:
    """Each arm's rate at the largest size that all of them measured. NotMeasured if there is none."""
    by_size = {arm: {one.mib: one for one in every if one.mib} for arm, every in found.items()}
    common = set.intersection(*map(set, by_size.values())) if by_size else set()
    if by_size and not common:
        raise NotMeasured("its arms have no size in common")
    return {arm: every[max(common)] for arm, every in by_size.items()}


def arms_of(team: SharedEvidence) -> set[str]:
    """The arms, but for the first one, that the team was told to do: by its plan, or after a failure."""
    specs = team.evidence.stage(STAGE).settings.get("specs")
    every = specs.values() if isinstance(specs, Mapping) else ()
    planned = any(isinstance(one, Mapping) and one.get("arm_s") for one in every)
    tried = _asked(team, "arm_tried")
    asked = {str(one.data["arm"]) for one in tried if team.subject in one.data.get("teams", ())}
    return asked.union(ARMS if planned else ())


def _ran(team: SharedEvidence, arm: str) -> bool:
    """Whether an arm did anything."""
    events = team.events("rank_stuck", "rank_died", "wrong_result")
    told = any(one.stage == STAGE and one.data.get("arm") == arm for one in events)
    rounds = team.evidence.rounds(team.subject)
    return told or bool(len(rounds.only(rounds.same("stage", STAGE)).having(arm=arm)))


def _troubles(team: SharedEvidence, arms: Sequence[str]) -> tuple[dict[str, str], list[NotMeasured]]:
    """How each of the arms failed that did, and why others were not measured."""
    found, excuses = {}, []
    for arm in arms:
        try:
            if trouble := _trouble(team, arm):
                found[arm] = trouble
        except NotMeasured as reason:
            excuses.append(reason)
    return found, excuses


def _trouble(team: SharedEvidence, arm: str) -> str:
    """How an arm failed; empty if it did not."""
    if _wrong(team, arm=arm, group="") is not None:
        return "wrong answers"
    halt = _halt(team, arm)
    if halt is None:
        return ""
    _excuse(halt)
    if halt.how == "lost":
        raise NotMeasured(halt.words)
    return "stuck" if halt.how == "stuck" else "a rank died"


def _way_out(rates: Mapping[str, Speed]) -> str:
    """What works around a failure, and what it gives."""
    fine = {arm: one.gbps for arm, one in rates.items() if arm != AS_IT_IS}
    if not fine:
        return ""
    arm = max(fine, key=lambda one: fine[one])
    variables = " ".join(f"{key}={value}" for key, value in (ARMS | PROTOCOLS)[arm].items())
    return f"`export {variables}` gives {figure(fine[arm], UNIT)}"


CRITERIA = (*map(_criterion, OPERATIONS), path)


def tables(recording: Recording) -> Iterator[StageTable]:
    """A row for each team, operation and size: the slowest rank's bus bandwidth, and the time of one."""
    rows = []
    for subject, verified in verified_rounds(recording, STAGE):
        own = verified.measured.having(group="", arm=AS_IT_IS)
        for (operation, mib), rounds in sorted(own.by_labels("operation", "mib").items(), key=_in_order):
            ranks = [rounds.only(rounds.same("worker", one)) for one in rounds.distinct("worker")]
            slowest = min(ranks, key=Rounds.rate)
            each_s = float(slowest.seconds.sum()) / max(1.0, float(slowest.label_numbers("repeats").sum()))
            backend = "/".join(sorted(map(str, rounds.distinct_labels("backend"))))
            size = f"{mib} MiB" if mib else "4 B"
            rate = figure(slowest.rate()) if mib else NO_RATE
            row = (subject, TITLES.get(operation, str(operation)), size, f"{backend}, {len(ranks)} ranks")
            rows.append((*row, rate, figure(each_s * 1e6)))
    yield StageTable(
        section="Collectives",
        title="Collectives",
        columns=("Group", "Operation", "Size", "By", f"bus bandwidth, {UNIT}", "one takes, µs"),
        rows=tuple(rows),
        labels=4,
        note="Of the slowest rank. Bus bandwidth as nccl-tests counts it; every element of every answer was "
        "compared.",
    )


def _in_order(item: tuple[tuple[str, int], Rounds]) -> tuple[int, int]:
    operation, mib = item[0]
    return OPERATIONS.index(operation), mib
