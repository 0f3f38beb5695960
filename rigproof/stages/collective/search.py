"""Looks for who is to blame where a team is not fine: groups of it do what it failed in, turn by turn.

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
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.devices.further import Further
from rigproof.profiles.planning.subjects import RIG, Subject, subjects
from rigproof.records.crews import Crew
from rigproof.records.measurements import Event, Round
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome
from rigproof.stages.collective.blame import Culprit, Members, Trial, next_step, node_of
from rigproof.stages.collective.criteria import judged
from rigproof.stages.collective.rates import limited, speeds
from rigproof.stages.collective.stage import (
    ALL_REDUCE,
    AS_IT_IS,
    BUFFERS,
    LATENCY_MIB,
    ONE_MIB,
    OPERATIONS,
    STAGE,
    CollectiveSettings,
    spec,
)
from rigproof.stages.collective.tested import rates_of, trial_of
from rigproof.stages.kind import StageWork

ASKED, BLAMED, NOT_TOLD = "groups_tested", "blamed", "not_told"
SECONDS = 1.0  # of a group's operations; three rounds of each are done in any case
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
    """What the planned turns showed, as plain data: each team's result, and what groups of it have to do.

    `done`: by team the operations and sizes that failed there. `least`: the rates below which they are slow.
    """
    evidence = Evidence(recording, work.loaded)
    found = [
        _failed(evidence, one, [event for event in events if event.subject == one.text]) for one in teams
    ]
    return {
        "planned": [(one.result, one.missing) for one, _, _ in found],
        "done": {team.text: done for team, (_, done, _) in zip(teams, found, strict=True) if done},
        "least": {team.text: least for team, (_, _, least) in zip(teams, found, strict=True) if least},
    }


Done = list[tuple[str, int]]  # operations, each with a size, MiB
Least = list[tuple[str, int, float]]  # the same with a rate, GB/s


def _failed(evidence: Evidence, subject: Subject, events: Sequence[Event]) -> tuple[Trial, Done, Least]:
    """How a team did, by the verdicts on its operations; what failed, and below which rates it is slow.

    Unknown if the all-reduce, which all levels do, was not measured, and nothing failed.
    """
    team, done, least, unknown = evidence.shared("team", subject.text), [], [], False
    for operation in OPERATIONS:
        try:
            if judged(operation, team).outcome is not Outcome.FAIL:
                continue
        except NotMeasured:
            unknown |= operation == ALL_REDUCE
            continue
        mib, rate = _where(operation, team, events)
        done.append((operation, mib))
        least += [(operation, mib, rate)] if rate else []
    own = [one for one in events if one.data.get("arm", AS_IT_IS) == AS_IT_IS]
    trial = trial_of(subject.members, own, {}, group="", least={})
    if done:
        slow = trial.result == "unknown" and bool(least)  # nothing ended it
        return (replace(trial, result="slow") if slow else trial), done, least
    return Trial(subject.members, "unknown" if unknown else "fine"), done, least


def _where(operation: str, team: SharedEvidence, events: Sequence[Event]) -> tuple[int, float]:
    """The smallest size at which a team's operation failed, MiB; if it was slow there, below which rate.

    That is between what the team did and its limit. Without a size, as where no rank came so far, ONE_MIB.
    """
    about = [one for one in events if one.data.get("operation") == operation and one.data.get("mib")]
    for kinds in (("wrong_result",), ("rank_stuck", "rank_died")):
        if sizes := [int(one.data["mib"]) for one in about if one.kind in kinds]:
            return min(sizes), 0.0
    with suppress(NotMeasured):
        for speed, limit in limited(operation, team, speeds(operation, team)):
            if speed.gbps < limit.value:
                return speed.mib, sqrt(limit.value * speed.gbps)
    return ONE_MIB, 0.0


def _results(
    asked: Sequence[Event],
    events: Sequence[Event],
    rounds: Sequence[Round],
    least: Mapping[str, Least],
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
            slow = least.get(_team_of(members, teams), ())
            limits = {(operation, mib): rate for operation, mib, rate in slow}
            rates = rates_of(done, len(members), group=name)
            yield trial_of(members, own, rates, group=name, least=limits)


def _turn(
    work: StageWork,
    groups: Sequence[Members],
    known: Mapping[str, Any],
    number: int,
    teams: Sequence[Subject],
) -> Further:
    """The groups as crews of their team; each does what its team failed in, on 4 B and at the same size.

    Of a team that is fine it does what any team failed in: a device may meet partners of other nodes.
    """
    first = {one.subject: one for one in work.plan.first_workers()}
    own = {one.subject: one for one in work.loaded.devices()}
    every = [one for done in known["done"].values() for one in done]
    specs, turn = {}, []
    for members in groups:
        team = _team_of(members, teams)
        turn.append(Crew(team, tuple(first[one].worker for one in members)))
        failed = known["done"].get(team, every)
        for one in members:
            whole = spec(work, first[one], own[one].settings(CollectiveSettings))
            most_mib = whole.buffers_mib // BUFFERS
            sizes = (LATENCY_MIB, *sorted({min(mib, most_mib) for _, mib in failed}))
            specs[first[one].worker] = replace(
                whole,
                operations=tuple(dict.fromkeys(operation for operation, _ in failed)),
                sizes_mib=sizes,
                other_sizes_mib=sizes,
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
    named = f"what joins {culprit.subject}" if culprit.kind == "link" else culprit.subject
    whom = f"{named} is to blame" if told else "who is to blame cannot be told"
    message = f"{whom}: {culprit.why}"
    subject = _team_of((*culprit.one, *culprit.other), teams)
    if told:
        return Event(0.0, "blamed", subject, message, STAGE, data=data)
    return Event(0.0, "not_told", subject, message, STAGE, data=data)
