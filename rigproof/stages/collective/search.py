"""Looks for who is to blame where a team is not fine: groups of it do an all-reduce, turn by turn.

What was tested is read from the recording: an event `groups_tested` for each turn, and what followed it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import zip_longest
from math import inf, sqrt
from typing import Any

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.devices.further import Further
from rigproof.profiles.planning.subjects import RIG, Subject, subjects
from rigproof.records.crews import Crew
from rigproof.records.measurements import Event, Round
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome
from rigproof.stages.collective.blame import Culprit, Members, Trial, next_step, node_of
from rigproof.stages.collective.criteria import judged, speeds
from rigproof.stages.collective.stage import ALL_REDUCE, LATENCY_MIB, ONE_MIB, STAGE, CollectiveSettings, spec
from rigproof.stages.collective.tested import rates_of, trial_of
from rigproof.stages.kind import StageWork

ASKED, BLAMED, NOT_TOLD = "groups_tested", "blamed", "not_told"
SECONDS = 1.0  # of a group's all-reduces
OWN_FAULT = (
    "gpu",
    "port",
    "node",
)  # left out of what others exchange later; of a link nobody knows which end


def further(work: StageWork, recording: Recording) -> Further | None:
    """The next groups to test if a team was not fine, else None; at the end who is to blame, as events."""
    since_s = recording.stages[STAGE].start_s
    events = [one for one in recording.events if one.stage == STAGE and one.t_s >= since_s]
    if any(one.kind in (BLAMED, NOT_TOLD) for one in events):
        return None
    teams = subjects(work.loaded, "team")
    asked = [one for one in events if one.kind == ASKED]
    known = asked[0].data if asked else _known(recording, work, events, teams)
    planned = [
        Trial(team.members, result, tuple(missing))
        for team, (result, missing) in zip(teams, known["planned"], strict=True)
    ]
    if all(one.result in ("fine", "unknown") for one in planned):
        return None
    rounds = [one for one in recording.rounds if asked and one.stage == STAGE and one.t_s >= asked[0].t_s]
    results = [*planned, *_results(asked, events, rounds, known["least"], teams)]
    step = next_step(tuple(one.subject for one in work.loaded.devices()), results)
    if not step.groups:
        return Further(events=tuple(_said(one, teams) for one in step.culprits))
    return _turn(work, step.groups, known, len(asked) + 1, teams)


def _known(
    recording: Recording, work: StageWork, events: Sequence[Event], teams: Sequence[Subject]
) -> dict[str, Any]:
    """What the planned turns showed: each team's result, and the rates below which groups of it are slow."""
    evidence = Evidence(recording, work.loaded)
    planned = [(one.result, one.missing) for one in _planned(evidence, events, teams)]
    return {"planned": planned, "least": _least(evidence, teams)}


def _planned(evidence: Evidence, events: Sequence[Event], teams: Sequence[Subject]) -> Iterator[Trial]:
    """How each team did, by its verdict on the all-reduce."""
    for team in teams:
        try:
            finding = judged(ALL_REDUCE, evidence.shared("team", team.text))
        except NotMeasured:
            yield Trial(team.members, "unknown")
            continue
        own = [one for one in events if one.subject == team.text]
        told = trial_of(team.members, own, {}, group="", least={})
        slow = replace(told, result="slow") if told.result == "unknown" else told
        yield slow if finding.outcome is Outcome.FAIL else Trial(team.members, "fine")


def _least(evidence: Evidence, teams: Sequence[Subject]) -> dict[str, float]:
    """By team, the rate below which a group is slow: between what the slow team did and its limit."""
    found = {}
    for one in teams:
        team = evidence.shared("team", one.text)
        with suppress(NotMeasured):
            finding = judged(ALL_REDUCE, team)
            if finding.outcome is Outcome.FAIL and finding.measured and finding.limit is not None:
                missed = sqrt(finding.limit.value / finding.measured)
                rates = {speed.mib: speed.gbps for speed in speeds(ALL_REDUCE, team)}
                found[one.text] = missed * rates.get(ONE_MIB, finding.measured)
    return found


def _results(
    asked: Sequence[Event],
    events: Sequence[Event],
    rounds: Sequence[Round],
    least: Mapping[str, float],
    teams: Sequence[Subject],
) -> Iterator[Trial]:
    """How each group did, turn by turn. A group whose crew was lost is unknown."""
    for turn, after in zip_longest(asked, asked[1:]):
        end_s = inf if after is None else after.t_s
        within = [one for one in events if turn.t_s <= one.t_s < end_s]
        done = [one for one in rounds if turn.t_s <= one.t_s < end_s]
        failed = [one.data["workers"] for one in within if one.kind == "crew_failed"]
        lost = {worker.rpartition("#")[0] for workers in failed for worker in workers}
        for members in map(tuple, turn.data["groups"]):
            if lost.intersection(members):
                yield Trial(members, "unknown")
                continue
            name = " ".join(members)
            own = [one for one in within if one.kind != "crew_failed" and one.data.get("group") == name]
            slow = least.get(_team_of(members, teams))
            limits = {(ALL_REDUCE, ONE_MIB): slow} if slow else {}
            rates = rates_of(done, len(members), group=name)
            yield trial_of(members, own, rates, group=name, least=limits)


def _turn(
    work: StageWork,
    groups: Sequence[Members],
    known: Mapping[str, Any],
    number: int,
    teams: Sequence[Subject],
) -> Further:
    """The groups as crews of their team; each does all-reduces of 4 B and of 16 MiB."""
    first = {one.subject: one for one in work.plan.first_workers()}
    own = {one.subject: one for one in work.loaded.devices()}
    specs, turn = {}, []
    for members in groups:
        turn.append(Crew(_team_of(members, teams), tuple(first[one].worker for one in members)))
        for one in members:
            whole = spec(work, first[one], own[one].settings(CollectiveSettings))
            size = min(ONE_MIB, whole.buffers_mib)
            specs[first[one].worker] = replace(
                whole,
                operations=(ALL_REDUCE,),
                sizes_mib=(LATENCY_MIB, size),
                seconds=min(SECONDS, whole.seconds),
                arm_s=0.0,
                group=" ".join(members),
            )
    message = f"to find who is to blame, groups are tested by themselves: {len(groups)} in turn {number}"
    data: dict[str, Any] = {**known, "groups": [list(one) for one in groups]}
    return Further(specs, tuple(turn), (Event(0.0, "groups_tested", RIG, message, STAGE, data=data),))


def _team_of(members: Iterable[str], teams: Sequence[Subject]) -> str:
    nodes = {node_of(one) for one in members}
    return nodes.pop() if len(nodes) == 1 and any(one.text in nodes for one in teams) else RIG


def _said(culprit: Culprit, teams: Sequence[Subject]) -> Event:
    """What was found, as an event of the team that it is about."""
    data: dict[str, Any] = {"kind": culprit.kind, "devices": list(culprit.one)}
    data["apart"] = list(culprit.one) if culprit.kind in OWN_FAULT else []
    told = culprit.kind != "unknown"
    whom = f"{culprit.subject} is to blame" if told else "who is to blame cannot be told"
    message = f"{whom}: {culprit.why}"
    subject = _team_of((*culprit.one, *culprit.other), teams)
    if told:
        return Event(0.0, "blamed", subject, message, STAGE, data=data)
    return Event(0.0, "not_told", subject, message, STAGE, data=data)
