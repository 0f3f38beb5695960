"""What ended a team's work or spoiled it, and what to judge if some members were set apart."""

from collections.abc import Callable
from math import inf

from rigproof.criteria.criterion import Disturbed, Finding
from rigproof.criteria.evidence import set_apart
from rigproof.criteria.evidence.fronts import Halt, halt_of
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.records.measurements import Event
from rigproof.records.verdict import count_of
from rigproof.stages.collective.rates import UNIT
from rigproof.stages.collective.stage import STAGE

RIGHT = "every element of every answer is what arithmetic says"
MORE_MEMORY = "free memory on that device, or lower `stages.collective.large_mib`, and run again"


def of_the_others(team: SharedEvidence, judge: Callable[[SharedEvidence], Finding]) -> Finding:
    """The finding about a team; without the members that were set apart, if there are any."""
    return set_apart.of_the_others(team, STAGE, UNIT, judge)


def wrong_of(team: SharedEvidence, **which: str) -> tuple[str, float] | None:
    """The first wrong answer with such `data` or labels, in words, and its time; of the whole team first."""
    events = [one for one in team.events("wrong_result") if one.stage == STAGE]
    for event in sorted(events, key=lambda one: bool(one.data.get("group"))):
        if all(event.data.get(key) == value for key, value in which.items()):
            return event.message, event.t_s
    rounds = team.unverified(STAGE).having(**which)
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
