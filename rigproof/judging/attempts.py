"""Rates that narrowly miss their limit are measured once more: when, and how both attempts are combined.

The whole stage is repeated, before any of it is judged. Everything except such rates is judged by the worse
of both attempts, so that a repeat hides nothing.
"""

from dataclasses import replace

from rigproof.criteria.criterion import Criterion
from rigproof.records.verdict import Outcome, Verdict, figure

# Events that rule out a second chance, whatever the stage's rates are.
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
WORST_FIRST = (
    Outcome.FAIL,
    Outcome.NOT_MEASURED,
    Outcome.WARN,
    Outcome.NO_LIMIT,
    Outcome.PASS,
    Outcome.NOT_APPLICABLE,
)
GOOD = (Outcome.PASS, Outcome.WARN)


def is_marginal(criterion: Criterion, verdict: Verdict, share: float | None) -> bool:
    """Whether a rate failed by less than `share` of its limit. Without a share no rate is marginal."""
    if not criterion.rate or not share or verdict.outcome is not Outcome.FAIL:
        return False
    if verdict.measured is None or verdict.limit is None:
        return False
    return verdict.limit * (1 - share) < verdict.measured < verdict.limit


def of_both(criterion: Criterion, first: Verdict, last: Verdict, share: float | None) -> Verdict:
    """One verdict from two attempts: the worse, except for a rate that failed once, by less than `share`."""
    failed, other = (first, last) if first.outcome is Outcome.FAIL else (last, first)
    if is_marginal(criterion, failed, share) and other.outcome in GOOD:
        return replace(
            other,
            outcome=Outcome.WARN,
            detail=_joined(f"{_attempt(failed, first)} it was {_measured(failed)}", other.detail),
            remedy=failed.remedy,
            severity=failed.severity,
        )
    worse, better = sorted((last, first), key=lambda one: WORST_FIRST.index(one.outcome))
    if criterion.rate and worse.outcome is Outcome.FAIL and better.measured is not None:
        return replace(
            worse, detail=_joined(f"{_attempt(better, first)} it was {_measured(better)}", worse.detail)
        )
    return worse


def _attempt(one: Verdict, first: Verdict) -> str:
    return "the first time" if one is first else "the second time"


def _measured(one: Verdict) -> str:
    assert one.measured is not None
    return figure(one.measured, one.unit, more_digits=1)


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
