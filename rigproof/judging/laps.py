"""A run that goes round its stages several times: each lap is judged by itself, the rig by its worst lap."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter
from typing import Any

from rigproof.criteria.criterion import Criterion, Finding, Limit
from rigproof.criteria.evidence.clocks import contradiction
from rigproof.criteria.evidence.evidence import ENDED, Evidence
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import GOOD, WORST_FIRST, is_marginal, joined, judge
from rigproof.judging.lap import judge_lap
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.records.champions import Champions
from rigproof.records.fields import table_name
from rigproof.records.measurements import Stage
from rigproof.records.recording import Recording
from rigproof.records.samples import PcieErrors
from rigproof.records.verdict import GOOD_IN, Outcome, Verdict, figure
from rigproof.stages.registry import KINDS

# Events that say how the rig is from then on. All others are of the lap in which they happened.
LASTING = frozenset(
    [
        "agent_died",
        "black_box",
        "champions",
        "earlier_rates",
        "gpu_lost",
        "gpu_missing",
        "gpu_skipped",
        "gpu_taken",
        "host_reset",
        "interrupted",
        "left_out",
        "memory_policy",
        "node_lost",
        "node_missing",
        "open_cluster",
        "reference",
        "rejected_before",
        "start_up",
        "storage",
        "unfinished_run",
        "worker_up",
    ]
)
# Events of what is in each lap: the workers of the whole run, each with the number of its process.
WITH_WORKERS = "worker_replaced"
# How many processes were killed so far: what that explains is marked in the losses (`laps_of`).
COUNTED = "oom_kills"
# The system's own counts, which are compared from the run's beginning to its end.
WHOLE = table_name(PcieErrors)
LISTED_MAX = 4  # laps that are named one by one


def laps_of(recording: Recording, loaded: LoadedRig, planned_by: LoadedRig | None = None) -> list[Recording]:
    """What was recorded in each lap, as the recording of a run of one lap; itself if the run has only one.

    A lap begins with its first stage. What came before the first one belongs to it, and what came after the
    last one to that. What holds for the whole run (nodes, GPUs, workers, counters, processes) is in each.
    If not all of the planned laps began, one without a stage stands for the others. A run whose stages
    contradict each other is left whole: none of them is measured.
    Which losses others caused is found in the whole run, as what tells so may lie in another lap.
    """
    attempts = recording.attempts
    laps, planned = sorted({one.lap for one in attempts}), _planned(recording)
    if (laps in ([], [1]) and planned == 1) or contradiction(attempts):
        return [recording]
    if not laps:
        return [_between(recording, [], -math.inf, math.inf)]
    whole = Evidence(recording, loaded, planned_by=planned_by)
    marked = [one for one in whole.events.in_order() if one.kind != COUNTED]
    recording = replace(recording, events=marked)
    begins_s = [min(one.start_s for one in attempts if one.lap == lap) for lap in laps]
    spans, nearest = pairwise([-math.inf, *begins_s[1:], math.inf]), _nearest(attempts)
    found = [
        _between(recording, [one for one in attempts if one.lap == lap], from_s, to_s, nearest.get(lap))
        for lap, (from_s, to_s) in zip(laps, spans, strict=True)
    ]
    if laps != list(range(1, len(laps) + 1)) or len(laps) != planned:
        found.append(_between(recording, [], math.inf, math.inf))
    return found


def _planned(recording: Recording) -> Any:
    """How many laps the run was to have; a plan that was read from a file may say anything."""
    return 1 if recording.plan is None else recording.plan.plan.get("laps", 1)


def _nearest(attempts: Sequence[Stage]) -> dict[int, dict[str, tuple[float, float]]]:
    """From when to when a stage's own records are of each lap: half way to its run in the next one.

    A node's clock may be a little ahead of the driver's, which knows when one lap ends and the next begins.
    """
    found: dict[int, dict[str, tuple[float, float]]] = defaultdict(dict)
    runs: dict[str, dict[int, Stage]] = defaultdict(dict)
    for one in sorted(attempts, key=attrgetter("start_s")):  # the last attempt of a lap counts
        runs[one.name][one.lap] = one
    for name, by_lap in runs.items():
        own = [by_lap[lap] for lap in sorted(by_lap)]
        middles = [
            ((one.start_s if one.end_s is None else one.end_s) + after.start_s) / 2
            for one, after in pairwise(own)
        ]
        for one, span in zip(own, pairwise([-math.inf, *middles, math.inf]), strict=True):
            found[one.lap][name] = span
    return found


def _between(
    recording: Recording,
    attempts: Sequence[Stage],
    from_s: float,
    to_s: float,
    stages: Mapping[str, tuple[float, float]] | None = None,
) -> Recording:
    earlier: dict[str, tuple[Stage, ...]] = {}
    for one in attempts:
        if one in recording.earlier_attempts.get(one.name, ()):
            earlier[one.name] = (*earlier.get(one.name, ()), one)
    return replace(
        recording,
        stages={one.name: one for one in attempts if one not in earlier.get(one.name, ())},
        earlier_attempts=earlier,
        earlier_laps=[],
        events=[
            one
            for one in recording.events
            if one.kind == WITH_WORKERS
            or (not one.t_s >= to_s and (one.kind in LASTING or not one.t_s < from_s))
        ],
        tables={
            name: rows if name == WHOLE else rows.between(from_s, to_s, stages)
            for name, rows in recording.tables.items()
        },
    )


def judge_all(
    recording: Recording,
    loaded: LoadedRig | None = None,
    champions: Champions | None = None,
    processes: int = 1,
    *,
    planned_by: LoadedRig | None = None,
) -> list[Verdict]:
    """All verdicts on a run, by its worst lap. `loaded` and `champions` replace the recorded ones.

    `planned_by`: the rig by which the run was planned, if that is not the one by which it is judged.
    """
    judged_by = LoadedRig.restore(recording.run.rig, KINDS) if loaded is None else loaded
    own = judged_by if planned_by is None else planned_by
    laps = [Evidence(lap, judged_by, champions, planned_by=own) for lap in laps_of(recording, judged_by, own)]
    return of_all_laps([judge_lap(one, processes) for one in laps], laps, judged_by)


def of_all_laps(
    laps: Sequence[Sequence[Verdict]], evidence: Sequence[Evidence], loaded: LoadedRig
) -> list[Verdict]:
    """One verdict for each criterion and subject, from those of each lap, which are in the same order.

    It is that of the worst lap. A rate may once miss its limit by little, as in one of two attempts at a
    stage (`of_attempts`): in one lap, if it was good in all others, which is a warning. `evidence`: each
    lap's. If the run ended before its last lap did, what that kept from being measured has the figure of the
    laps before, and is not measured all the same.
    """
    if len(laps) == 1:
        return list(laps[0])
    planned = _planned(evidence[0].recording) if evidence else None
    number = max(len(laps), planned) if isinstance(planned, int) else len(laps)
    devices = {one.subject: one for one in loaded.devices()}
    begun = sum(bool(one.recording.attempts) for one in evidence)
    done = begun - bool(begun and _cut(evidence[:begun]))
    ending = _ending(evidence[:begun], done, number)
    good_in = f"{GOOD_IN}{_laps(1, done).removeprefix('lap')} of {number}; {ending}" if done else ""
    found = []
    for each in zip(*laps, strict=True):
        criterion, device = CATALOGUE[each[0].criterion], devices.get(each[0].subject)
        limits = loaded.rig.limits if device is None else device.limits
        of_laps: Sequence[Verdict] = each
        if device is not None and device.gpu.device == "cuda" and criterion.steady:
            of_laps = _steady(each, criterion, device, evidence, loaded)
        worst = _worst(of_laps, criterion, limits.marginal_share, number)
        measured = [
            one
            for place, one in enumerate(of_laps)
            if place < done
            or one.outcome is not Outcome.NOT_MEASURED
            or (one.remedy if place < begun else one.follows)
        ]
        if evidence and worst.outcome is Outcome.NOT_MEASURED and len(measured) < len(of_laps):
            so_far = _worst(measured, criterion, limits.marginal_share, number) if measured else None
            worst = _until_then(so_far, replace(worst, detail=ending, remedy="", from_s=None), good_in)
        found.append(worst)
    return found


def _cut(begun: Sequence[Evidence]) -> bool:
    """Whether the last of these laps lacks the end of a stage, which the first lap had, or the plan has."""
    ran = begun[-1].recording.stages
    expected = begun[0].recording.stages if len(begun) > 1 else begun[0].stages
    return any(one.status not in ENDED for one in ran.values()) or not ran.keys() >= set(expected)


def _ending(begun: Sequence[Evidence], done: int, number: int) -> str:
    """Where the run ended: `lap 5 was interrupted in pattern; laps 6 to 23 were not run`."""
    parts = []
    if done < len(begun):
        ran = sorted(begun[-1].recording.stages.values(), key=attrgetter("start_s"))
        aborted = [one.name for one in ran if one.status not in ENDED]
        where = f"in {aborted[0]}" if aborted else f"after {ran[-1].name}"
        parts.append(f"lap {len(begun)}{'' if done else f' of {number}'} was interrupted {where}")
    if len(begun) < number:
        several = len(begun) + 1 < number
        parts.append(f"{_laps(len(begun) + 1, number)} {'were' if several else 'was'} not run")
    return "; ".join(parts)


def _laps(first: int, last: int) -> str:
    return f"lap {first}" if first == last else f"laps {first} to {last}"


def _until_then(so_far: Verdict | None, ended: Verdict, good_in: str) -> Verdict:
    """What was not measured as the run `ended`, with the figure of what was, which may be nothing at all.

    `good_in`: in which laps that was all; empty if not even the first is complete.
    """
    if so_far is None:
        return ended
    match so_far.outcome:
        case Outcome.NOT_MEASURED:
            return so_far
        case Outcome.NOT_APPLICABLE:
            return so_far if good_in else ended
        case Outcome.WARN:
            detail = joined(so_far.detail, ended.detail)
            return replace(so_far, outcome=Outcome.NOT_MEASURED, detail=detail, severity=None)
    return replace(so_far, outcome=Outcome.NOT_MEASURED, detail=good_in or ended.detail, remedy="")


def _worst(laps: Sequence[Verdict], criterion: Criterion, share: float | None, number: int) -> Verdict:
    """The worst of the laps, of which there were to be `number`.

    It names the laps that were as bad, unless all are alike, or it was read before and after the whole run.
    """
    if all(one == laps[0] for one in laps):
        return laps[0]
    place = min(
        range(len(laps)),
        key=lambda one: (WORST_FIRST.index(laps[one].outcome), _unplaced(laps[one]), _figure(laps[one])),
    )
    worst, others = laps[place], [*laps[:place], *laps[place + 1 :]]
    if is_marginal(criterion, worst, share) and all(one.outcome in GOOD for one in others):
        worst = replace(worst, outcome=Outcome.WARN)
    if worst.of_run:
        return worst
    if worst.outcome is Outcome.NOT_MEASURED:
        return replace(worst, detail=joined(_in_laps([place + 1], number), worst.detail))
    if worst.outcome in (Outcome.FAIL, Outcome.WARN):
        return replace(worst, detail=joined(_in_laps(_as_bad(laps, place), number), worst.detail))
    if len({one.measured for one in laps}) == 1:
        return worst
    return replace(worst, detail=joined(worst.detail, f"{_in_laps([place + 1], number)}, the worst"))


def _unplaced(one: Verdict) -> bool:
    """Whether it tells neither of a lap nor of a cause: what another lap tells says more."""
    return one.of_run and not one.follows


def _as_bad(laps: Sequence[Verdict], place: int) -> list[int]:
    """The numbers of the laps with the outcome of that place; what one moment left to later laps is once."""
    return [
        number
        for number, one in enumerate(laps, 1)
        if one.outcome is laps[place].outcome
        and not one.of_run
        and (number == place + 1 or one.from_s is None or one not in [*laps[: number - 1], laps[place]])
    ]


def _in_laps(those: Sequence[int], number: int) -> str:
    """`in lap 3 of 6`, `in laps 3 to 6 of 6`, `in laps 1, 3 and 5 of 6`, `in all 6 laps`."""
    if len(those) == 1:
        return f"in lap {those[0]} of {number}"
    if len(those) == number:
        return f"in all {number} laps"
    if len(those) == those[-1] - those[0] + 1 > 2:
        return f"in {_laps(those[0], those[-1])} of {number}"
    if len(those) > LISTED_MAX:
        return f"in {len(those)} of {number} laps, first in lap {those[0]}"
    return f"in laps {', '.join(map(str, those[:-1]))} and {those[-1]} of {number}"


def _figure(one: Verdict) -> float:
    """What was measured; the worse, the lower."""
    if one.measured is None:
        return 0.0
    return -one.measured if one.direction == "at_most" else one.measured


def _steady(
    laps: Sequence[Verdict],
    criterion: Criterion,
    device: PromisedDevice,
    evidence: Sequence[Evidence],
    loaded: LoadedRig,
) -> Sequence[Verdict]:
    """The verdicts; a lap whose rate is too far below that of the best one is judged as a failure of that.

    Its stage's setting `criterion.steady` says what share of the best rate must be left. Not of a CPU as the
    device, as its rate stability is not judged: whatever else the host does slows it down.
    """
    rates = [one.measured for one in laps if one.measured is not None]
    stage, settings = criterion.stages[0], device.stages[criterion.stages[0]]
    share = getattr(settings, criterion.steady)
    source = loaded.source_of(
        f"{device.key}.stages.{stage}.{criterion.steady}", f"stages.{stage}.{criterion.steady}"
    )
    best = f"{figure(max(rates, default=0.0), criterion.unit)} in the best lap"
    limit = Limit(share * max(rates, default=0.0), f"{share:.0%} of the best lap; {source or loaded.file}")

    def fallen(about: object) -> Finding:
        found = criterion.find(about)
        from_s = found.over[0][0] if found.over else found.from_s
        return found._replace(outcome=Outcome.FAIL, limit=limit, detail=best, from_s=from_s)

    return [
        judge(replace(criterion, find=fallen), device.subject, its_evidence)
        if one.outcome is not Outcome.FAIL and one.measured is not None and one.measured < limit.value
        else one
        for one, its_evidence in zip(laps, evidence, strict=True)
    ]
