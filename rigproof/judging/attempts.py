"""Whether a stage that has just ended is attempted once more: if only its rates failed, and by little.

The whole stage is repeated, before any of it is judged. `judge` combines both attempts.
"""

from rigproof.criteria.criterion import Criterion
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import is_marginal, judge, promised
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, Verdict, figure_and_limit

REGRESSION = "history.regression"
# Events that rule out another attempt, whatever the stage's rates are.
HARD_EVENTS = (
    "agent_died",
    "gpu_lost",
    "interrupted",
    "node_lost",
    "oom",
    "timeout",
    "worker_died",
    "worker_failed",
    "worker_hung",
    "worker_replaced",
    "wrong_result",
    "xid",
)


def another_attempt(recording: Recording, loaded: LoadedRig, stage: str) -> str:
    """Why a stage that has just ended is attempted once more: which rate is low, and against what.

    That is a limit which was missed narrowly, `limits.marginal_repeats` times; or the card's own earlier
    runs, `limits.regression_repeats` times, as long as the median of all attempts is below them. Empty if it
    is not: if all rates pass, if one is far off its limit, if anything else in the stage failed, if not all
    workers finished it, or if it was attempted as often as that already.
    """
    run, limits = recording.stages.get(stage), loaded.rig.limits
    done = len(recording.earlier_attempts.get(stage, ()))
    most = marginal, regression = limits.marginal_repeats or 0, limits.regression_repeats or 0
    if run is None or run.status != "finished" or done >= max(most):
        return ""
    if any(one.kind in HARD_EVENTS and not one.t_s < run.start_s for one in recording.events):
        return ""
    evidence = Evidence(recording, loaded)
    own = [one for one in CATALOGUE.values() if stage in one.loads(evidence.stages, evidence.kinds)]
    rates, others = [one for one in own if one.rate], [one for one in own if not one.rate]
    narrowly: list[Verdict] = []
    for criterion, verdict in _failures(rates, evidence):
        if not _is_of(stage, criterion, verdict, evidence):
            continue
        if not is_marginal(criterion, verdict, evidence.marginal_share(verdict.subject)):
            return ""
        narrowly.append(verdict)
    narrowly = narrowly if done < marginal else []
    lower = _slower(evidence, stage) if done < regression else []
    if not (narrowly or lower) or _failures(others, evidence):
        return ""
    return _message(stage, [*narrowly, *lower])


def _slower(evidence: Evidence, stage: str) -> list[Verdict]:
    """Of the stage whose rates were just judged, those that are below the card's earlier ones."""
    found = _failures([CATALOGUE[REGRESSION]], evidence)
    window = evidence.whole_window(stage)
    return [one for _, one in found if one.from_s is not None and window.from_s <= one.from_s <= window.to_s]


def _is_of(stage: str, criterion: Criterion, verdict: Verdict, evidence: Evidence) -> bool:
    """Whether it failed in this stage, and not in another one that the criterion judges, too."""
    if verdict.from_s is None:
        return stage in criterion.stages or not criterion.stages
    window = evidence.whole_window(stage)
    return window.from_s <= verdict.from_s <= window.to_s


def _failures(criteria: list[Criterion], evidence: Evidence) -> list[tuple[Criterion, Verdict]]:
    subjects = (
        (criterion, subject)
        for criterion in criteria
        for subject in promised(criterion, evidence.loaded, evidence.stages)
    )
    judged = ((criterion, judge(criterion, subject, evidence)) for criterion, subject in subjects)
    return [pair for pair in judged if pair[1].outcome is Outcome.FAIL]


def _message(stage: str, marginal: list[Verdict]) -> str:
    first = marginal[0]
    assert first.measured is not None
    assert first.limit is not None
    figures = ", ".join(figure_and_limit(first.measured, first.limit, first.unit, first.direction))
    more = f" (and {len(marginal) - 1} more)" if len(marginal) > 1 else ""
    return f"{stage} is measured once more: {first.subject} {first.criterion}: {figures}{more}"
