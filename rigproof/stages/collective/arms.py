"""Which of the ways between a node's GPUs are right and fast: all-reduces with some of them switched off."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

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
from rigproof.stages.collective.rates import (
    UNIT,
    Speed,
    devices_of,
    speeds,
)
from rigproof.stages.collective.stage import (
    ALL_REDUCE,
    ARMS,
    AS_IT_IS,
    KIND,
    PROTOCOLS,
    STAGE,
)

ARM_SHARE = KIND.key(lambda own: own.arm_share)
WITHOUT_P2P = next(iter(ARMS))
PATH = "look for ACS and IOMMU (`sudo dmesg | grep -i -e iommu -e acs`), switch both off in the BIOS"
NO_WAY = "see whom collective.all_reduce names: each way between the cards fails"


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
    return of_the_others(team, _path)


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
    tried = asked_for(team, "arm_tried")
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
    if wrong_of(team, arm=arm, group="") is not None:
        return "wrong answers"
    halt = halt_in(team, arm)
    if halt is None:
        return ""
    excuse(halt)
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
