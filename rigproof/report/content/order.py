"""The order in which verdicts are shown (failures first), and the sentences about all of them."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import attrgetter

from rigproof.records.grouping import grouped
from rigproof.records.verdict import (
    SEVERITIES,
    Decision,
    Outcome,
    Verdict,
    counts,
    figure,
    sentence,
    with_remedy,
)

FOLDED_FROM = 4  # from this many on, verdicts of a kind are shown as one
FOLLOWING_FROM = 2  # the same if another failure explains them: each would only lead there
OF_STAGE = re.compile(r"\bthe (\w+) stage\b")
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
    """Failures, warnings, what was not measured, baselines, passes, what does not apply; otherwise as judged.

    Failures that follow from others come after them.
    """
    return sorted(verdicts, key=loudness)


def loudness(verdict: Verdict) -> tuple[int, bool]:
    """A verdict's place in `reading_order`."""
    return READING_ORDER.index(verdict.outcome), verdict.follows


def word(verdict: Verdict) -> str:
    """A verdict's outcome as a table shows it."""
    return WORDS[verdict.outcome]


def of_outcome(verdicts: Iterable[Verdict], outcome: Outcome) -> list[Verdict]:
    """Verdicts with that outcome; those that follow from others come after them."""
    return sorted((verdict for verdict in verdicts if verdict.outcome is outcome), key=attrgetter("follows"))


def not_measured_groups(verdicts: Iterable[Verdict]) -> Iterator[list[Verdict]]:
    """Verdicts "not measured", in groups: several criteria of one subject with one cause, or several subjects
    of one criterion with one cause, as when a missing GPU affects all its pairs; the others one by one. What
    was good until the run ended before its last lap is one group, the first.

    Those with a remedy of their own come first: they name what kept the run from measuring.
    """
    missing = of_outcome(verdicts, Outcome.NOT_MEASURED)
    good = [one for one in missing if one.good_so_far]
    if len(good) >= FOLDED_FROM:
        yield good
        missing = [one for one in missing if not one.good_so_far]
    missing.sort(key=lambda one: not one.remedy or one.follows)
    by_subject = grouped(missing, lambda verdict: (verdict.subject, _cause(verdict)))
    rest = [verdict for group in by_subject.values() if not folded(group) for verdict in group]
    by_criterion = grouped(rest, lambda verdict: (verdict.criterion, _cause(verdict)))
    for group in by_subject.values():
        if folded(group):
            yield group
            continue
        for verdict in group:
            alike = by_criterion[verdict.criterion, _cause(verdict)]
            if not folded(alike):
                yield [verdict]
            elif verdict is alike[0]:
                yield alike


def folded(group: Sequence[Verdict]) -> bool:
    """Whether these verdicts with one cause are shown as one."""
    return len(group) >= (FOLLOWING_FROM if group[0].follows else FOLDED_FROM)


def _cause(verdict: Verdict) -> str:
    """The reason why it was not measured: the failure that it follows from, else its own."""
    return verdict.remedy if verdict.follows else verdict.detail


def not_measured_sentence(group: list[Verdict]) -> str:
    """The sentence for one of `not_measured_groups`."""
    first = group[0]
    if len(group) == 1:
        return sentence(first)
    if first.good_so_far:
        return f"{len(group)} criteria: {_with_key_rates(group)}"
    of_one = first.subject == group[1].subject
    subject, what = (first.subject, "criteria") if of_one else (first.criterion, "subjects")
    return with_remedy(
        f"{subject}: {len(group)} {what} not measured: {_cause(first)}", "" if first.follows else first.remedy
    )


def _with_key_rates(group: Sequence[Verdict]) -> str:
    """The detail of a soak that ended early, with its rates: `good in laps 1 to 4 of 23 (sustained …`."""
    laps, _, ending = group[0].detail.partition(";")
    rates = [one for one in group if one.criterion == "throughput.sustained" and one.measured is not None]
    if not rates:
        return group[0].detail
    figures = [figure(one) for one in sorted({one.measured or 0.0 for one in rates}, reverse=True)]
    figures = list(dict.fromkeys(figures)) if len(figures) < FOLDED_FROM else [figures[0], "…", figures[-1]]
    return f"{laps} (sustained {' / '.join(figures)} {rates[0].unit});{ending}"


def no_device_there(verdicts: Iterable[Verdict]) -> bool:
    """Whether all devices of the rig are missing, and nothing was measured of any."""
    verdicts = list(verdicts)
    present = {one.subject: one.outcome for one in verdicts if one.criterion == "inventory.gpus_present"}
    measured = (Outcome.PASS, Outcome.WARN, Outcome.NO_LIMIT)
    any_measured = any(one.outcome in measured for one in verdicts if one.subject in present)
    return set(present.values()) == {Outcome.FAIL} and not any_measured


def not_measured_sentences(
    verdicts: Iterable[Verdict], *, interrupted: bool = False, everything: bool = False
) -> list[str]:
    """A sentence for each of `not_measured_groups`.

    One for all without a next step if the run was interrupted, or no device of the rig is there; not with
    `everything`.
    """
    verdicts = list(verdicts)
    groups = list(not_measured_groups(verdicts))
    none_there = no_device_there(verdicts)
    fold = (interrupted or none_there) and not everything
    alone = [group for group in groups if group[0].remedy or group[0].good_so_far]
    left = [one for group in groups if group not in alone for one in group] if fold else []
    if len(left) < FOLDED_FROM:
        return [not_measured_sentence(group) for group in groups]
    stages = dict.fromkeys(name for one in left for name in OF_STAGE.findall(one.detail))
    before = f" before the stage{'s' if len(stages) > 1 else ''} {', '.join(stages)} ended" if stages else ""
    together = f"the run was interrupted{before}: {len(left)} criteria are not measured"
    if not stages and len({one.detail for one in left}) == 1:
        together += f": {left[0].detail}"
    if none_there:
        together = f"{len(left)} criteria were not measured: no device of the rig is there"
    return [*(not_measured_sentence(group) for group in alone), together]


def not_applicable_sentences(verdicts: Iterable[Verdict]) -> list[str]:
    """Verdicts "not applicable" with their reasons, one sentence for all subjects with the same reason."""
    inapplicable = of_outcome(verdicts, Outcome.NOT_APPLICABLE)
    groups = grouped(inapplicable, lambda verdict: (verdict.criterion, verdict.detail))
    return [
        sentence(group[0])
        if len(group) == 1
        else f"{criterion}: not applicable to {len(group)} subjects: {reason}"
        for (criterion, reason), group in groups.items()
    ]


def severity_legend(verdicts: Iterable[Verdict]) -> list[str]:
    """The meaning of the tags at the end of failures and warnings, such as `[reset] reset the GPU, or …`."""
    tagged = {one.severity for one in verdicts if one.outcome in (Outcome.FAIL, Outcome.WARN)}
    return [f"[{name}] {what}" for name, what in SEVERITIES.items() if name in tagged]


def only_cpu(verdicts: Iterable[Verdict]) -> bool:
    """Whether the CPU was the device, and no GPU was promised."""
    subjects = {verdict.subject for verdict in verdicts}
    return any(map(CPU_DEVICE.search, subjects)) and not any(map(GPU_DEVICE.search, subjects))


def good_until_the_end(verdicts: Iterable[Verdict]) -> str:
    """How many of those not measured were good in the laps before the run ended; empty if none was."""
    number = sum(verdict.good_so_far for verdict in verdicts)
    return f" ({number} good until the run ended)" if number else ""


def count_line(verdicts: Collection[Verdict]) -> str:
    """For example `41 pass, 1 warn, 2 not measured`."""
    good = {Outcome.NOT_MEASURED.value: good_until_the_end(verdicts)}
    parts = [
        f"{number} {outcome.replace('_', ' ')}{good.get(outcome, '')}"
        for outcome, number in counts(verdicts).items()
        if number
    ]
    return ", ".join(parts) or "nothing was judged"


def instead(decision: Decision, short: str, apart: str = "") -> str:
    """The addition to ACCEPTED in a verdict line: ` for 6 s of load, not a soak, GPUs not tested together`.

    Empty for other decisions. `short` says what was done instead of the whole level, `apart` who exchanged
    no data with the others.
    """
    if decision is not Decision.ACCEPTED:
        return ""
    return (f" {short}" if short else "") + (f", {apart}" if apart else "")


def meaning(
    decision: Decision,
    verdicts: Iterable[Verdict],
    *,
    interrupted: bool = False,
    problem: str = "",
    short: str = "",
    apart: str = "",
    simulated: bool,
) -> str:
    """The decision's meaning for someone who wants to train, in one sentence.

    `problem`: what else than the rig kept it from being accepted. `short`, `apart`: as in `instead`.
    """
    verdicts = list(verdicts)
    if decision is Decision.ACCEPTED:
        warned = len(of_outcome(verdicts, Outcome.WARN))
        fit = "nothing failed on the simulated rig" if simulated else "this rig is fit for training"
        if apart and not simulated:
            fit = "each is fit for training by itself; that they can train together is not proven"
        if short:
            fit = "nothing failed in that time; the whole level is not proven"
        if only_cpu(verdicts):
            fit = "the CPU was tested as the device, and nothing failed; this says nothing about a GPU"
        return fit + (f"; look at {_some(warned, 'warning')}" if warned else "")
    cpu = "the CPU was tested as the device; " if only_cpu(verdicts) else ""
    if decision is Decision.REJECTED:
        failed = len(of_outcome(verdicts, Outcome.FAIL))
        what = _some(failed, "criterion failed", "criteria failed")
        then = " on the simulated rig" if simulated else "; do not train on this rig until that is fixed"
        return f"{cpu}{what}{' before the run was interrupted' if interrupted else ''}{then}"
    good = next((one.detail.partition(";")[0] for one in verdicts if one.good_so_far), "")
    until_then = f"nothing failed {good.removeprefix('good ')}; " if good else ""
    if interrupted:
        return f"{cpu}the run was interrupted; {until_then}the rig is not proven fit"
    missing = len(of_outcome(verdicts, Outcome.NOT_MEASURED))
    what = _some(missing, "criterion was not measured", "criteria were not measured") if missing else ""
    if problem:
        return f"{cpu}{problem}; {until_then or (f'{what}; ' if what else '')}the rig is not proven fit"
    if what:
        return f"{cpu}nothing failed, but {what}; the rig is not proven fit"
    return "nothing failed, but nothing proves the rig fit either"


def with_more(sense: str, decision: Decision, headlines: Sequence[str] = (), not_tested: str = "") -> str:
    """The meaning with what else is said of an accepted rig, and what was found beside the rig."""
    found = headlines if decision is Decision.ACCEPTED else ()
    return "; ".join((sense, *found, *([f"not tested: {not_tested}"] if not_tested else [])))


def _some(number: int, singular: str, plural: str = "") -> str:
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
