"""Which of the ways between a node's GPUs are right and fast: all-reduces with some of them switched off."""

from collections.abc import Mapping, Sequence

from rigproof.criteria.criterion import (
    Criterion,
    Finding,
    NotApplicable,
    NotMeasured,
)
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.profiles.planning.subjects import RIG
from rigproof.records.verdict import Outcome, figure
from rigproof.stages.collective.endings import RIGHT, asked_for, excuse, halt_in, of_the_others, wrong_of
from rigproof.stages.collective.rates import UNIT, Speed, devices_of, speeds, stated_gbps
from rigproof.stages.collective.stage import (
    ALL_REDUCE,
    ARMS,
    AS_IT_IS,
    EVERY_ARM,
    KIND,
    PROTOCOLS,
    STAGE,
)

Failed = Sequence[tuple[str, int]]  # operations, each with the size at which it failed, MiB
ARM_SHARE = KIND.key(lambda own: own.arm_share)
WITHOUT_P2P, SOCKETS = ARMS
PATH = "look for ACS and IOMMU (`sudo dmesg | grep -i -e iommu -e acs`), switch both off in the BIOS"
HOST_MEMORY = "check host memory: `df /dev/shm`, `sudo dmesg | grep -i edac`"
# By the first arm that lies. NCCL's documentation of NCCL_PROTO: to force LL128 may corrupt data.
REMEDIES = {
    AS_IT_IS: PATH,
    WITHOUT_P2P: HOST_MEMORY,
    SOCKETS: "check the network stack: `ip -s link`, `sudo dmesg`",
    **dict.fromkeys(PROTOCOLS, "unset NCCL_PROTO and NCCL_ALGO if they are set, update NCCL"),
}
HOST_SLOW = "host memory is slow: sockets are faster"
SOCKETS_ONLY = "as slow as by sockets"


@Criterion(
    "collective.path",
    title="path between GPUs",
    scope="team",
    unit=UNIT,
    direction="at_least",
    limit="every arm gives right answers and ends. As it is, all-reduces, or what failed, reach "
    "`stages.collective.arm_share` of the fastest arm; less warns",
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
    have these arms. After a failure the arms, and each of NCCL's protocols alone, do what failed, at that
    size: only an arm in which all of it is right is a way out, and none is where a GPU fails alone.
    """
    if team.subject == RIG:
        raise NotApplicable("between nodes there is neither P2P nor shared memory")
    if any(one.is_cpu for one in devices_of(team)):
        raise NotApplicable("gloo has no other ways to choose from")
    return of_the_others(team, _path)


def _path(team: SharedEvidence) -> Finding:
    team.evidence.stage(STAGE)
    ran = [arm for arm in (*ARMS, *PROTOCOLS) if _ran(team, arm)]
    failed = _failed(team)
    troubles, excuses = _troubles(team, (AS_IT_IS, *ran))
    if troubles:  # whatever ended another arm
        return _failure(team, troubles, failed)
    if excuses:
        raise excuses[0]
    if not team.evidence.specs(STAGE):
        raise NotMeasured("what its workers were told to do is not recorded")
    if not ran and not _told(team):
        raise NotApplicable("this level has arms only after a failure")
    operation = failed[0][0] if failed else ALL_REDUCE
    found = {arm: speeds(operation, team, arm) for arm in (AS_IT_IS, *ARMS)}
    found |= {arm: own for arm in PROTOCOLS if (own := _measured(operation, team, arm))}
    return _compared(team, _at_one_size(found), operation, failed)


def _failure(team: SharedEvidence, troubles: Mapping[str, str], failed: Failed) -> Finding:
    """What an arm that is wrong or does not end says: of the way that it takes, or of a GPU."""
    of_them = [arm for arm in troubles if arm not in PROTOCOLS or AS_IT_IS not in troubles]
    said = [f"{arm}: {troubles[arm]}" for arm in of_them]
    alone = _fails_alone(team) if AS_IT_IS in troubles else ""
    if alone or troubles.keys() >= {AS_IT_IS, *ARMS}:
        said.append(f"{alone}so it is none of the ways between them")
        remedy = f"see whom collective.{failed[0][0] if failed else ALL_REDUCE} names"
        return Finding(Outcome.FAIL, detail="; ".join(said), source=RIGHT, remedy=remedy)
    if AS_IT_IS in troubles:
        said += _way_out(team, [arm for arm in (*ARMS, *PROTOCOLS) if arm not in troubles], failed)
    elif _measured(ALL_REDUCE, team, AS_IT_IS):
        said.append(f"{AS_IT_IS}: right")
    lying = next(arm for arm in troubles if arm != AS_IT_IS or WITHOUT_P2P not in troubles)
    return Finding(Outcome.FAIL, detail="; ".join(said), source=RIGHT, remedy=REMEDIES[lying])


def _compared(team: SharedEvidence, rates: Mapping[str, Speed], operation: str, failed: Failed) -> Finding:
    """What the rates of arms that are all right say of the ways between GPUs."""
    fastest = max(rates, key=lambda one: rates[one].gbps)
    own, best = rates[AS_IT_IS].gbps, rates[fastest].gbps
    host, sockets = rates[WITHOUT_P2P].gbps, rates[SOCKETS].gbps
    share = devices_of(team)[0].limit(ARM_SHARE)
    said = [HOST_SLOW] if host < share.value * sockets else []
    said += [SOCKETS_ONLY] if share.value * own < sockets else []
    mib = rates[AS_IT_IS].mib
    work = f"{mib} MiB" if operation == ALL_REDUCE else f"{operation} of {mib} MiB"
    if own < share.value * best:
        limit = share.times(best, " of the fastest arm")
        arms = [arm for arm in rates if arm != AS_IT_IS]
        way_out = _way_out(team, arms, failed or [(operation, mib)])
        remedy = HOST_MEMORY if HOST_SLOW in said else PATH
        remedy = REMEDIES[fastest] if fastest in PROTOCOLS else remedy
        return Finding(Outcome.WARN, own, limit, "; ".join([work, *said[:1], *way_out]), remedy=remedy)
    if not said and share.value * own < host:
        said = ["P2P is not used, or gives nothing"]
    told = ", ".join(f"{arm} {figure(one.gbps)}" for arm, one in rates.items())
    return Finding(Outcome.PASS, own, detail="; ".join([f"{work} {told}", *said]))


def _failed(team: SharedEvidence) -> Failed:
    """What the team failed in as it is, and was asked to do again; empty if nothing was asked."""
    asked = (*asked_for(team, "arm_tried"), *asked_for(team, "groups_tested"))
    found = next((done for one in asked if (done := one.data.get("done", {}).get(team.subject))), ())
    return [(str(operation), int(mib)) for operation, mib in found]


def _fails_alone(team: SharedEvidence) -> str:
    """The team's GPUs of which the stage found that they fail alone, to be followed by what that means."""
    blamed = [
        one for one in asked_for(team, "blamed") if one.subject == team.subject and one.data.get("alone")
    ]
    names = list(dict.fromkeys(str(one.data["named"]) for one in blamed))
    if len(names) < 2:
        return "".join(f"{name} fails alone, " for name in names)
    return f"{names[0]} and {len(names) - 1} more fail alone, "


def untried(team: SharedEvidence, failed: Failed) -> list[str]:
    """The arms in which a team is yet to do what failed; none that is known to fail.

    NCCL's protocols only if it got through in another arm.
    """
    tried, broken = _asked(team), _troubles(team, tuple(ARMS))[0]
    through = any(arm not in broken and _did(team, arm, failed) for arm in ARMS)
    return [arm for arm in (*ARMS, *(PROTOCOLS if through else ())) if arm not in {*tried, *broken}]


def _did(team: SharedEvidence, arm: str, failed: Failed) -> Speed | None:
    """An arm's speed in the first of these operations; None unless it did all of them, with right answers."""
    found = {
        (operation, one.mib): one
        for operation in dict.fromkeys(operation for operation, _ in failed)
        for one in reversed(_measured(operation, team, arm))  # as it is told beside, odd numbers come first
    }
    return found[failed[0]] if failed and found.keys() >= set(failed) else None


def _measured(operation: str, team: SharedEvidence, arm: str) -> list[Speed]:
    """The speeds of an operation in an arm; none if they were not measured, or answers were wrong."""
    try:
        return speeds(operation, team, arm)
    except NotMeasured:
        return []


def _at_one_size(found: Mapping[str, list[Speed]]) -> dict[str, Speed]:
    """Each arm's rate at the largest size that all of them measured, with odd or even numbers alike.

    NotMeasured if there is none.
    """
    by_size = {
        arm: {(one.mib, one.elements): one for one in every if one.mib} for arm, every in found.items()
    }
    common = set.intersection(*map(set, by_size.values()))
    if not common:
        raise NotMeasured("its arms have no size in common")
    return {arm: every[max(common)] for arm, every in by_size.items()}


def _told(team: SharedEvidence) -> bool:
    """Whether the team was told to do another arm: by its plan, or after a failure."""
    return bool(_asked(team)) or any(one.get("arm_s") for one in team.evidence.specs(STAGE))


def _asked(team: SharedEvidence) -> set[str]:
    """Those that it was told to do after a failure."""
    tried = asked_for(team, "arm_tried")
    return {str(one.data["arm"]) for one in tried if team.subject in one.data.get("teams", ())}


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
    if wrong_of(team, arm=arm, group="") is not None:
        return "wrong answers"
    halt = halt_in(team, arm)
    if halt is None:
        return ""
    excuse(halt)
    if halt.how == "lost":
        raise NotMeasured(halt.words)
    return "stuck" if halt.how == "stuck" else "a rank died"


def _way_out(team: SharedEvidence, arms: Sequence[str], failed: Failed) -> list[str]:
    """What works around a failure, and what it gives, beside the rate as it is: its cost. May be empty."""
    rates = {arm: own.gbps for arm in arms if (own := _did(team, arm, failed))}
    if not rates:
        return []
    arm = max(rates, key=lambda one: rates[one])
    variables = " ".join(f"{key}={value}" for key, value in EVERY_ARM[arm].items())
    return [f"`export {variables}` gives {_of_what(team, rates[arm], *failed[0])}"]


def _of_what(team: SharedEvidence, gbps: float, operation: str, mib: int) -> str:
    """A rate beside that as it is, by its right answers, or else beside the SKU file's; if one is known."""
    try:
        right = speeds(operation, team, despite_wrong=True)
    except NotMeasured:
        right = []
    own = next((one.gbps for one in right if one.mib == mib), None)
    if own is not None:
        return f"{figure(gbps)} of {figure(own, UNIT)} {AS_IT_IS}"
    stated = stated_gbps(operation, devices_of(team), mib)
    if stated is not None:
        return f"{figure(gbps)} of {figure(stated, UNIT)} by the SKU file"
    return figure(gbps, UNIT)
