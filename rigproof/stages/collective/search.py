"""Looks for who is to blame where a team is not fine: groups of it do what it failed in, turn by turn.

What was tested is read from the recording: an event `groups_tested` for each turn, and what followed it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from math import inf, sqrt
from typing import Any

from rigproof.criteria.criterion import Limit, NotMeasured
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.devices.further import Further
from rigproof.devices.specs import NCCL
from rigproof.profiles.planning.subjects import RIG, Subject, subjects
from rigproof.records.crews import Crew
from rigproof.records.measurements import Event, Round
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, count_of, figure
from rigproof.stages.collective.arms import untried
from rigproof.stages.collective.blame import next_step
from rigproof.stages.collective.criteria import of_team
from rigproof.stages.collective.pairs import again, culprits, number_of_pairs, settled, tournament
from rigproof.stages.collective.rates import (
    UNIT,
    bounds_of_part,
    is_the_hosts,
    limited,
    limits_of_pairs,
    speeds,
)
from rigproof.stages.collective.results import ALONE, BAD, Culprit, Members, Result, Trial, node_of
from rigproof.stages.collective.stage import (
    ALL_REDUCE,
    AS_IT_IS,
    BUFFERS,
    EVERY_ARM,
    LATENCY_MIB,
    ONE_MIB,
    OPERATIONS,
    STAGE,
    CollectiveSettings,
    spec,
)
from rigproof.stages.collective.tested import Rates, rates_of, trial_of
from rigproof.stages.kind import StageWork

BLAMED, NOT_TOLD = "blamed", "not_told"
PAIR_WORK = (ALL_REDUCE, ONE_MIB)
SECONDS = 1.0  # of a group's operations; three rounds of each are done in any case
OWN_FAULT = ("gpu", "port", "node")  # left out of what others exchange later; of a link either end may be it


Done = list[tuple[str, int]]  # operations, each with a size, MiB
Slow = list[tuple[str, int, float, float]]  # the same with the team's limit and its rate, GB/s


@dataclass(frozen=True, slots=True)
class _Known:
    """What the planned turns showed, and what groups have to do; each further turn's event keeps it.

    `planned`: each team's result, and who was missing there. `done`: by team the operations and sizes that
    failed there. `slow`: what of it was slow.
    """

    planned: list[tuple[Result, Members]]
    done: dict[str, Done]
    slow: dict[str, Slow]

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> "_Known":
        """From an event, in which tuples have become lists."""
        return cls(
            [(result, tuple(missing)) for result, missing in data["planned"]],
            {
                team: [(str(operation), int(mib)) for operation, mib in own]
                for team, own in data["done"].items()
            },
            {team: [(one[0], one[1], one[2], one[3]) for one in own] for team, own in data["slow"].items()},
        )


def further(work: StageWork, recording: Recording) -> Further | None:
    """The next groups to test, or None; at the end what they showed, as events.

    If a team was not fine, first its other arms, then groups that tell who is to blame. Then, in a soak,
    pairs of all that are fine.
    """
    recording, teams = recording.since_the_beginning_of(STAGE), _teams(work, recording)
    marked = Evidence(recording, work.loaded).events.in_order()  # whose host others kept busy
    events = [one for one in marked if one.stage == STAGE]
    turns = [one for one in events if one.kind in ("arm_tried", "groups_tested")]
    known = _Known.read(turns[0].data) if turns else _known(recording, work, events, teams)
    asked = [one for one in turns if one.kind == "groups_tested"]
    said: tuple[Event, ...] = ()
    tested = list(_tested(asked, events, recording.rounds))
    if not asked and (arm := _arm(work, recording, known, teams)):
        return arm
    if not any(one.kind in (BLAMED, NOT_TOLD) for one in events) and _failed_in(known):
        members = {one for team in teams for one in team.members}
        devices = tuple(one.subject for one in work.loaded.devices() if one.subject in members)
        evidence = Evidence(recording, work.loaded)
        step = next_step(devices, _results(evidence, known, tested, teams))
        if step.groups:
            return _turn(work, step.groups, known, len(asked) + 1, teams)
        said = tuple(_said(one, teams) for one in step.culprits)
    if work.plan.level == "soak" and not any(one.kind == "pairs_tested" for one in events):
        fine = [team for team, (result, _) in zip(teams, known.planned, strict=True) if result == "fine"]
        round_robin = _RoundRobin(work, recording, fine, [one for one in tested if one.pairs])
        if groups := round_robin.groups():
            return _turn(work, groups, known, len(asked) + 1, teams, said=said, pairs=True)
        said += tuple(round_robin.said(teams))
    return Further(events=said) if said else None


def _teams(work: StageWork, recording: Recording) -> list[Subject]:
    """The teams without the devices that an earlier stage has set apart; none of which only one is left."""
    events = (one for one in recording.events if (one.kind, one.stage) == ("set_apart", STAGE))
    apart = {one.subject for one in events}
    every = (
        replace(team, members=tuple(one for one in team.members if one not in apart))
        for team in subjects(work.loaded, "team")
    )
    return [team for team in every if len(team.members) > 1]


def _failed_in(known: _Known) -> bool:
    return any(result in BAD for result, _ in known.planned)


def _arm(work: StageWork, recording: Recording, known: _Known, teams: Sequence[Subject]) -> Further | None:
    """The next arm of the teams that failed inside a node, all at the same time; None if all were tried."""
    evidence, wanted = Evidence(recording, work.loaded), {}
    for team, (result, _) in zip(teams, known.planned, strict=True):
        if result in BAD and team.text != RIG and work.backend(team.text) == NCCL:
            left = untried(SharedEvidence(evidence, team), known.done[team.text])
            wanted[team] = next(iter(left), None)
    arm = next((arm for arm in EVERY_ARM if arm in wanted.values()), None)
    return _turn_of_arm(work, arm, [one for one in wanted if wanted[one] == arm], known) if arm else None


def _turn_of_arm(work: StageWork, arm: str, teams: Sequence[Subject], known: _Known) -> Further:
    """These teams do in an arm what they failed in."""
    first, specs, turn = {one.subject: one for one in work.plan.first_workers()}, {}, []
    for team in teams:
        own = [first[one] for one in team.members]
        turn.append(Crew(team.text, tuple(one.worker for one in own)))
        for one in own:
            settings = work.devices[one.subject].settings(CollectiveSettings)
            specs[one.worker] = spec(work, one, settings).in_arm(arm, known.done[team.text])
    data = {**asdict(known), "arm": arm, "teams": [team.text for team in teams]}
    message = f"{count_of(len(teams), 'teams')} that failed: the same {arm}"
    return Further(specs, tuple(turn), (Event(0.0, "arm_tried", RIG, message, STAGE, data=data),))


class _RoundRobin:
    """The pairs of teams that are fine: all at the same time, then those that are not, by themselves."""

    def __init__(
        self, work: StageWork, recording: Recording, teams: Sequence[Subject], tested: Sequence["_Tested"]
    ) -> None:
        (first, *_) = work.loaded.devices()
        self._most = first.settings(CollectiveSettings).pair_turns
        self._lap = recording.stages[STAGE].lap
        self._teams = [team for team in teams if number_of_pairs(team.members)]
        self._tested = tested
        self._evidence = Evidence(recording, work.loaded)
        self._turns = tournament([one.members for one in self._teams], self._most, self._lap)
        self._number = len({one.turn_s for one in tested})

    def groups(self) -> list[Members]:
        """Those of the next turn; none if it is over."""
        if self._number < len(self._turns):
            return self._turns[self._number]
        doubtful = [pair for pair, own in self._results().items() if own and own[0] != "fine"]
        turns, later = again(doubtful, self._most), self._number - len(self._turns)
        return turns[later] if later < len(turns) else []

    def _results(self) -> dict[Members, list[Result]]:
        """Of each pair how it did, each time."""
        found: dict[Members, list[Result]] = {pair: [] for turn in self._turns for pair in turn}
        limits = self._limits()
        for one in self._tested:
            limit = limits.get(one.members)
            least = {PAIR_WORK: limit.value} if limit is not None else {}
            found[one.members].append(one.trial(least).result)
        return found

    def _limits(self) -> dict[Members, Limit]:
        """Of each pair that was tested in the tournament, if there is one."""
        rates = {one.members: one.rates[PAIR_WORK] for one in self._tested[::-1] if PAIR_WORK in one.rates}
        found: dict[Members, Limit] = {}
        for team in self._teams:
            own = {pair: rate for pair, rate in rates.items() if self._team_of(pair) == team.text}
            found |= limits_of_pairs(self._evidence.shared("team", team.text), own)
        return found

    def _team_of(self, pair: Members) -> str:
        return _team_of(pair, self._teams)

    def said(self, teams: Sequence[Subject]) -> Iterator[Event]:
        """What each team's pairs showed, and who is to blame."""
        every, limits = self._results(), self._limits()
        for team in self._teams:
            mine = {pair: results for pair, results in every.items() if self._team_of(pair) == team.text}
            own = {pair: settled(results) for pair, results in mine.items()}
            once = [pair for pair, results in mine.items() if "fine" in results]
            failed = [self._in_words(pair, result, limits) for pair, result in own.items() if result in BAD]
            unknown = [_pair_name(pair) for pair, result in own.items() if result == "unknown"]
            number = number_of_pairs(team.members)
            data = {"pairs": number, "tested": len(own), "failed": failed, "unknown": unknown}
            message = f"{len(own)} of its {number} pairs did all-reduces by themselves"
            yield Event(0.0, "pairs_tested", team.text, message, STAGE, data=data)
            yield from (_said(one, teams) for one in culprits(team.members, own, once))

    def _in_words(self, pair: Members, result: Result, limits: Mapping[Members, Limit]) -> str:
        name, limit = f"{_pair_name(pair)} alone", limits.get(pair)
        if result != "slow" or limit is None:
            return f"{name}: {result}"
        best = max(one.rates.get(PAIR_WORK, 0.0) for one in self._tested if one.members == pair)
        return f"{name}: {figure(best)}, limit {figure(limit.value, UNIT)} ({limit.source})"


def _pair_name(pair: Members) -> str:
    """The two devices, or the two nodes."""
    return " and ".join(pair if len(pair) == 2 else dict.fromkeys(map(node_of, pair)))


def _known(
    recording: Recording, work: StageWork, events: Sequence[Event], teams: Sequence[Subject]
) -> _Known:
    evidence = Evidence(recording, work.loaded)
    found = [
        _failed(evidence, one, [event for event in events if event.subject == one.text]) for one in teams
    ]
    return _Known(
        [(one.result, one.missing) for one, _, _ in found],
        {team.text: done for team, (_, done, _) in zip(teams, found, strict=True) if done},
        {team.text: slow for team, (_, _, slow) in zip(teams, found, strict=True) if slow},
    )


def _failed(evidence: Evidence, subject: Subject, events: Sequence[Event]) -> tuple[Trial, Done, Slow]:
    """How a team did, by the verdicts on its operations; what failed, and what of it was slow.

    Unknown if the all-reduce, which all levels do, was not measured, and nothing failed.
    """
    team, done, slow, unknown = SharedEvidence(evidence, subject), [], [], False
    for operation in OPERATIONS:
        try:
            if of_team(operation, team).outcome is not Outcome.FAIL:
                continue
        except NotMeasured:
            unknown |= operation == ALL_REDUCE
            continue
        mib, rates = _where(operation, team, events)
        done.append((operation, mib))
        slow += [(operation, mib, *rates)] if rates else []
    own = [one for one in events if one.data.get("arm", AS_IT_IS) == AS_IT_IS]
    trial = trial_of(subject.members, own, {}, group="", least={})
    if done:
        only_slow = trial.result == "unknown" and bool(slow)  # nothing ended it
        return (replace(trial, result="slow") if only_slow else trial), done, slow
    return Trial(subject.members, "unknown" if unknown else "fine"), done, slow


def _where(
    operation: str, team: SharedEvidence, events: Sequence[Event]
) -> tuple[int, tuple[float, float] | None]:
    """The smallest size at which a team's operation failed, MiB; if it was slow there, its limit and rate.

    Without a size, as where no rank came so far, ONE_MIB.
    """
    about = [one for one in events if one.data.get("operation") == operation and one.data.get("mib")]
    for kinds in (("wrong_result",), ("rank_stuck", "rank_died")):
        if sizes := [int(one.data["mib"]) for one in about if one.kind in kinds]:
            return min(sizes), None
    with suppress(NotMeasured):
        for speed, limit in limited(operation, team, speeds(operation, team), champions=False):
            if speed.gbps < limit.value and not is_the_hosts(team, speed, limit):
                return speed.mib, (limit.value, speed.gbps)
    return ONE_MIB, None


@dataclass(frozen=True, slots=True)
class _Tested:
    """A group that was tested: in which turn, its events, and its rates. `lost`: its crew was."""

    turn_s: float
    members: Members
    pairs: bool
    events: tuple[Event, ...]
    rates: Rates
    lost: bool

    def trial(self, least: Rates) -> Trial:
        """How it did."""
        if self.lost:
            return Trial(self.members, "unknown")
        return trial_of(self.members, self.events, self.rates, group=" ".join(self.members), least=least)


def _tested(asked: Sequence[Event], events: Sequence[Event], rounds: Iterable[Round]) -> Iterator[_Tested]:
    """Each group, turn by turn."""
    rounds = [one for one in rounds if asked and one.stage == STAGE and one.t_s >= asked[0].t_s]
    for turn, after in zip_longest(asked, asked[1:]):
        end_s = inf if after is None else after.t_s
        done: dict[object, list[Round]] = defaultdict(list)
        own: dict[object, list[Event]] = defaultdict(list)
        lost: set[str] = set()
        for round_ in rounds:
            if turn.t_s <= round_.t_s < end_s:
                done[round_.label("group")].append(round_)
        for event in events:
            if not turn.t_s <= event.t_s < end_s:
                continue
            if event.kind == "crew_failed":
                lost.update(worker.rpartition("#")[0] for worker in event.data["workers"])
            else:
                own[event.data.get("group")].append(event)
        for members in map(tuple, turn.data["groups"]):
            name = " ".join(members)
            rates, pairs = rates_of(done[name], len(members), group=name), bool(turn.data.get("pairs"))
            gone = not lost.isdisjoint(members)
            yield _Tested(turn.t_s, members, pairs, tuple(own[name]), rates, gone)


def _results(
    evidence: Evidence, known: _Known, tested: Iterable[_Tested], teams: Sequence[Subject]
) -> Iterator[Trial]:
    """How each team did, then each group of the search, by what all groups did so far."""
    for team, (result, missing) in zip(teams, known.planned, strict=True):
        yield Trial(team.members, result, tuple(missing))
    groups = [(one, _team_of(one.members, teams)) for one in tested if not one.pairs]
    rates: dict[tuple[str, str, int], dict[Members, float]] = defaultdict(dict)  # of each team's parts
    for one, name in groups:
        for work, rate in one.rates.items():
            rates[name, *work][one.members] = max(rate, rates[name, *work].get(one.members, 0.0))
    for one, name in groups:
        least, enough = {}, {}
        alone = len(one.members) == 1  # it exchanges nothing, so it cannot be slow
        for operation, mib, limit, rate in () if alone else known.slow.get(name, ()):
            own, others = evidence.shared("team", name), rates[name, operation, mib]
            bounds = bounds_of_part(operation, mib, own, one.members, of_team=limit, rates=others)
            # between what a sound part does and what one does that is as slow as the team
            least[operation, mib], enough[operation, mib] = (sqrt(rate / limit) * it for it in bounds)
        trial = one.trial(least)
        told = all(one.rates.get(it, 0.0) >= enough[it] for it in enough)
        if name == RIG and RIG not in known.slow:  # a LAN is fast enough for what is slow inside a node
            told = not any(node_of(member) in known.slow for member in one.members)
        yield trial if told or trial.result != "fine" else replace(trial, result="unknown")


def _turn(
    work: StageWork,
    groups: Sequence[Members],
    known: _Known,
    number: int,
    teams: Sequence[Subject],
    *,
    said: tuple[Event, ...] = (),
    pairs: bool = False,
) -> Further:
    """The groups as crews of their team; each does what its team failed in, on 4 B and at the same size.

    Of a team that is fine it does what any team failed in: a device may meet partners of other nodes. `pairs`
    of the round robin do all-reduces. `said`: events of what came before.
    """
    first = {one.subject: one for one in work.plan.first_workers()}
    every = [one for done in known.done.values() for one in done]
    specs, turn = {}, []
    for members in groups:
        team = _team_of(members, teams)
        turn.append(Crew(team, tuple(first[one].worker for one in members)))
        failed = [PAIR_WORK] if pairs else known.done.get(team, every)
        for one in members:
            whole = spec(work, first[one], work.devices[one].settings(CollectiveSettings))
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
    why = "each two of a team" if pairs else "to find who is to blame, groups"
    message = f"{why} are tested by themselves: {len(groups)} in turn {number}"
    data: dict[str, Any] = {**asdict(known), "groups": [list(one) for one in groups], "pairs": pairs}
    asked = Event(0.0, "groups_tested", RIG, message, STAGE, data=data)
    return Further(specs, tuple(turn), (*said, asked))


def _team_of(members: Iterable[str], teams: Sequence[Subject]) -> str:
    nodes = {node_of(one) for one in members}
    return nodes.pop() if len(nodes) == 1 and any(one.text in nodes for one in teams) else RIG


def _said(culprit: Culprit, teams: Sequence[Subject]) -> Event:
    """What was found, as an event of the team that it is about."""
    told = culprit.kind != "unknown"
    named = f"what joins {culprit.subject}" if culprit.kind == "link" else culprit.subject
    data: dict[str, Any] = {"kind": culprit.kind, "devices": list(culprit.one), "named": named}
    data["apart"] = list(culprit.one) if culprit.kind in OWN_FAULT else []
    data["alone"] = culprit.why == ALONE
    whom = f"{named} is to blame" if told else "who is to blame cannot be told"
    message = f"{whom}: {culprit.why}"
    subject = _team_of((*culprit.one, *culprit.other), teams)
    return Event(0.0, BLAMED if told else NOT_TOLD, subject, message, STAGE, data=data)
