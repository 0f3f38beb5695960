"""The order in which verdicts are read: what needs doing first."""

from collections.abc import Iterable

from rigproof.records.verdict import Decision, Outcome, Verdict, counts

READING_ORDER = (Outcome.FAIL, Outcome.WARN, Outcome.NOT_MEASURED, Outcome.NO_LIMIT, Outcome.PASS)
WORDS = {
    Outcome.PASS: "pass",
    Outcome.WARN: "WARN",
    Outcome.FAIL: "FAIL",
    Outcome.NOT_MEASURED: "NOT MEASURED",
    Outcome.NO_LIMIT: "no limit",
}


def reading_order(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Failures, warnings, what was not measured (required first), baselines, passes; else as judged."""
    return sorted(
        verdicts,
        key=lambda verdict: (
            READING_ORDER.index(verdict.outcome),
            verdict.outcome is Outcome.NOT_MEASURED and not verdict.required,
        ),
    )


def word(verdict: Verdict) -> str:
    """The outcome as a table shows it; what need not be measured is not shouted."""
    if verdict.outcome is Outcome.NOT_MEASURED and not verdict.required:
        return "not measured"
    return WORDS[verdict.outcome]


def of_outcome(verdicts: Iterable[Verdict], outcome: Outcome) -> list[Verdict]:
    """Those that say `outcome`."""
    return [verdict for verdict in verdicts if verdict.outcome is outcome]


def count_line(verdicts: Iterable[Verdict]) -> str:
    """Such as `41 pass, 1 warn, 2 not measured`."""
    found = counts(verdicts)
    said = [f"{found[outcome]} {outcome.value.replace('_', ' ')}" for outcome in Outcome if found[outcome]]
    return ", ".join(said) or "nothing was judged"


def meaning(decision: Decision, verdicts: Iterable[Verdict], *, interrupted: bool = False) -> str:
    """What the decision means to the person who wants to train, in one sentence."""
    verdicts = list(verdicts)
    if decision is Decision.ACCEPTED:
        warned = len(of_outcome(verdicts, Outcome.WARN))
        return "this rig is fit for training" + (f"; look at {_some(warned, 'warning')}" if warned else "")
    if decision is Decision.REJECTED:
        failed = len(of_outcome(verdicts, Outcome.FAIL))
        what = _some(failed, "criterion failed", "criteria failed")
        return f"{what}; do not train on this rig until that is fixed"
    if interrupted:
        return "the run was stopped before its end; the rig is not proven fit"
    missing = sum(verdict.required for verdict in of_outcome(verdicts, Outcome.NOT_MEASURED))
    if missing:
        what = _some(missing, "required criterion was not measured", "required criteria were not measured")
        return f"nothing failed, but {what}; the rig is not proven fit"
    return "nothing failed, but nothing proves the rig fit either"


def _some(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
