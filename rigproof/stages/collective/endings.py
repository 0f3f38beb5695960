"""What ended a team's work or spoiled it, and what to judge if some members were set apart."""

from collections.abc import Callable
from math import inf

from rigproof.criteria.criterion import (
    Disturbed,
    Finding,
    NotMeasured,
)
from rigproof.criteria.evidence.fronts import Halt, halt_of
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.profiles.planning.subjects import Subject
from rigproof.records.measurements import Event
from rigproof.records.verdict import Outcome, count_of, figure, figure_and_limit
from rigproof.stages.collective.rates import (
    UNIT,
)
from rigproof.stages.collective.stage import (
    STAGE,
)

RIGHT = "every element of every answer is what arithmetic says"
MORE_MEMORY = "free memory on that device, or lower `stages.collective.large_mib`, and run again"


def of_the_others(team: SharedEvidence, judge: Callable[[SharedEvidence], Finding]) -> Finding:
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


def wrong_of(team: SharedEvidence, **which: str) -> tuple[str, float] | None:
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


def halt_in(team: SharedEvidence, arm: str) -> Halt | None:
    """What ended an arm early: a worker that is lost in a later turn takes nothing from the ones before."""
    turns = [*asked_for(team, "arm_tried"), *asked_for(team, "groups_tested")]
    own = next((one for one in turns if one.data.get("arm") == arm), None)
    begin_s = -inf if own is None else own.t_s
    end_s = min((one.t_s for one in turns if one.t_s > begin_s), default=inf)
    return halt_of(team, STAGE, begin_s=begin_s, end_s=end_s, group="", arm=arm)


def asked_for(team: SharedEvidence, kind: str) -> list[Event]:
    """What the stage asked for in this attempt, after the turns of its plan."""
    begin_s = team.evidence.stage(STAGE).start_s
    return [one for one in team.evidence.events.of_kind(kind) if one.stage == STAGE and one.t_s >= begin_s]


def excuse(halt: Halt) -> None:
    """Disturbed if no card or link did it."""
    if halt.by_others:
        raise Disturbed(halt.words, MORE_MEMORY if halt.how == "memory" else halt.next_step, halt.t_s)
