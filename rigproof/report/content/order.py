"""The order in which verdicts are read: what needs doing first."""

import re
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter

from rigproof.records.verdict import Decision, Outcome, Verdict, counts, sentence

FOLDED_FROM = 4  # that many of a kind are said once
CPU_DEVICE, GPU_DEVICE = re.compile(r"/cpu\d+$"), re.compile(r"/gpu\d+$")

READING_ORDER = (
    Outcome.FAIL,
    Outcome.WARN,
    Outcome.NOT_MEASURED,
    Outcome.NO_LIMIT,
    Outcome.PASS,
    Outcome.NOT_APPLICABLE,
)
WORDS = {
    Outcome.PASS: "pass",
    Outcome.WARN: "WARN",
    Outcome.FAIL: "FAIL",
    Outcome.NOT_MEASURED: "NOT MEASURED",
    Outcome.NOT_APPLICABLE: "not applicable",
    Outcome.NO_LIMIT: "no limit",
}


def reading_order(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Failures, warnings, what was not measured, baselines, passes, what does not apply; else as judged.

    Failures that follow from others stand behind them.
    """
    return sorted(verdicts, key=lambda verdict: (READING_ORDER.index(verdict.outcome), verdict.follows))


def word(verdict: Verdict) -> str:
    """The outcome as a table shows it."""
    return WORDS[verdict.outcome]


def of_outcome(verdicts: Iterable[Verdict], outcome: Outcome) -> list[Verdict]:
    """Those that say `outcome`; what follows from others behind them."""
    return sorted((one for one in verdicts if one.outcome is outcome), key=attrgetter("follows"))


def not_measured_groups(verdicts: Iterable[Verdict]) -> Iterator[list[Verdict]]:
    """What had to be measured and was not: together where one cause kept a subject from all of it, or many
    subjects from the same, as a missing GPU does its pairs; else singly.
    """
    missing = of_outcome(verdicts, Outcome.NOT_MEASURED)
    by_subject = _grouped(missing, lambda one: (one.subject, one.detail))
    alone = [one for group in by_subject.values() if len(group) < FOLDED_FROM for one in group]
    by_criterion = _grouped(alone, lambda one: (one.criterion, one.detail))
    for group in by_subject.values():
        if len(group) >= FOLDED_FROM:
            yield group
            continue
        for verdict in group:
            alike = by_criterion[verdict.criterion, verdict.detail]
            if len(alike) < FOLDED_FROM:
                yield [verdict]
            elif verdict is alike[0]:
                yield alike


def _grouped(
    verdicts: Iterable[Verdict], key: Callable[[Verdict], tuple[str, str]]
) -> dict[tuple[str, str], list[Verdict]]:
    groups: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault(key(verdict), []).append(verdict)
    return groups


def not_measured_sentence(group: list[Verdict]) -> str:
    """One sentence for one of `not_measured_groups`."""
    first = group[0]
    if len(group) == 1:
        return sentence(first)
    if first.subject == group[1].subject:
        return f"{first.subject}: {len(group)} criteria not measured, {first.detail}; see docs/criteria.md"
    return f"{first.criterion}: {len(group)} subjects not measured, {first.detail}; see docs/criteria.md"


def not_applicable_sentences(verdicts: Iterable[Verdict]) -> list[str]:
    """What the hardware cannot have, with the reason: once for all subjects that share it."""
    inapplicable = of_outcome(verdicts, Outcome.NOT_APPLICABLE)
    groups = _grouped(inapplicable, lambda one: (one.criterion, one.detail))
    return [
        sentence(group[0])
        if len(group) == 1
        else f"{criterion}: not applicable to {len(group)} subjects, {reason}"
        for (criterion, reason), group in groups.items()
    ]


def only_cpu(verdicts: Iterable[Verdict]) -> bool:
    """Whether the CPU was the device, and no GPU was promised."""
    subjects = {verdict.subject for verdict in verdicts}
    return any(map(CPU_DEVICE.search, subjects)) and not any(map(GPU_DEVICE.search, subjects))


def count_line(verdicts: Iterable[Verdict]) -> str:
    """Such as `41 pass, 1 warn, 2 not measured`."""
    found = counts(verdicts)
    said = [f"{found[outcome]} {outcome.value.replace('_', ' ')}" for outcome in Outcome if found[outcome]]
    return ", ".join(said) or "nothing was judged"


def instead(decision: Decision, short: str) -> str:
    """What stands behind the decision in a verdict line: ` for 6 s of load, not a soak`.

    `short` says what was done in place of the level; other decisions than ACCEPTED promise nothing by it.
    """
    return f" {short}" if short and decision is Decision.ACCEPTED else ""


def meaning(
    decision: Decision,
    verdicts: Iterable[Verdict],
    *,
    interrupted: bool = False,
    whole: bool = True,
    short: str = "",
) -> str:
    """What the decision means to the person who wants to train, in one sentence.

    `whole`: nothing went wrong in writing down what was measured. `short`: as in `instead`.
    """
    verdicts = list(verdicts)
    if decision is Decision.ACCEPTED:
        warned = len(of_outcome(verdicts, Outcome.WARN))
        fit = "this rig is fit for training"
        if short:
            fit = "nothing failed in that; whether it holds for the whole level is not proven"
        if only_cpu(verdicts):
            fit = "the CPU was the device here, and did what was asked; this says nothing about a GPU"
        return fit + (f"; look at {_some(warned, 'warning')}" if warned else "")
    if decision is Decision.REJECTED:
        failed = len(of_outcome(verdicts, Outcome.FAIL))
        what = _some(failed, "criterion failed", "criteria failed")
        return f"{what}; do not train on this rig until that is fixed"
    if interrupted:
        return "the run was stopped before its end; the rig is not proven fit"
    missing = len(of_outcome(verdicts, Outcome.NOT_MEASURED))
    if missing:
        what = _some(missing, "criterion was not measured", "criteria were not measured")
        return f"nothing failed, but {what}; the rig is not proven fit"
    if not whole:
        return "nothing failed, but not all of it could be written down; see the problems above"
    return "nothing failed, but nothing proves the rig fit either"


def _some(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
