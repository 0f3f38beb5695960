"""Whether a verdict's figure and limit say the same as its outcome."""

from rigproof.judging.catalogue import CATALOGUE
from rigproof.records.verdict import Outcome, Verdict, meets


def agrees(verdict: Verdict) -> bool:
    """A pass is within its limit and a failure is not; a limit has a direction, and nothing else has one."""
    if verdict.limit is None or verdict.measured is None:
        return verdict.limit is None and verdict.direction is None
    if verdict.direction is None or CATALOGUE[verdict.criterion].direction is None:
        return False
    within = meets(verdict.measured, verdict.limit, verdict.direction)
    return within is not {Outcome.PASS: False, Outcome.FAIL: True}.get(verdict.outcome)
