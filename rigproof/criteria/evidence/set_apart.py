"""Who was set apart from what a team exchanged in a stage, and what is judged then. Pure."""

from collections.abc import Callable, Sequence

from rigproof.criteria.criterion import Finding, NotMeasured
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.profiles.planning.subjects import Subject
from rigproof.records.measurements import Event
from rigproof.records.verdict import Outcome, figure, figure_and_limit

MOST_NAMED = 4


def of_the_others(
    team: SharedEvidence, stage: str, unit: str, judge: Callable[[SharedEvidence], Finding]
) -> Finding:
    """The finding about a team; if it had to do without some members, a failure of the others.

    NotMeasured, with what the others did, if they do not fail: the team is all that the profile promises.
    """
    apart = _set_apart(team, stage)
    left = tuple(one.subject for one in team.members if one.subject not in apart)
    if not apart or len(left) < 2:
        return judge(team)
    found = judge(SharedEvidence(team.evidence, Subject(team.subject, left)))
    if found.outcome is Outcome.FAIL:
        were = "was" if len(apart) == 1 else "were"
        return found._replace(detail=f"{found.detail}; {_names(list(apart))} {were} left out")
    raise NotMeasured(f"{_why(apart, stage)}; the other {len(left)} {_in_words(found, unit)}")


def _set_apart(team: SharedEvidence, stage: str) -> dict[str, Event]:
    """The members that the team had to do without in this attempt at the stage."""
    ran, members = team.evidence.recording.stages.get(stage), {one.subject for one in team.members}
    if ran is None:
        return {}
    events = [one for one in team.evidence.events.of_kind("set_apart") if one.stage == stage]
    return {one.subject: one for one in events if one.t_s <= ran.start_s and one.subject in members}


def _why(apart: dict[str, Event], stage: str) -> str:
    if len(apart) == 1:
        return next(iter(apart.values())).message
    lost = [one for one, event in apart.items() if event.data.get("lost")]
    to_blame = [one for one in apart if one not in lost]
    groups = {"to blame": to_blame, "lost": lost}
    parts = [f"{_names(own)}, which {_are(own)} {how}" for how, own in groups.items() if own]
    return f"{stage} exchanges data without {', and without '.join(parts)}"


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _names(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _in_words(found: Finding, unit: str) -> str:
    """How those did that a finding is about: `pass: 216 GB/s, limit ≥ 184 GB/s`."""
    told = {Outcome.PASS: "pass", Outcome.WARN: "warn"}.get(found.outcome, "have no limit")
    if found.measured is None:
        return told
    if found.limit is None:
        return f"{told}: {figure(found.measured, unit)}"
    return f"{told}: {', '.join(figure_and_limit(found.measured, found.limit.value, unit, 'at_least'))}"
