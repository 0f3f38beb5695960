"""From criteria and evidence to verdicts. An error here gives NOT MEASURED, never a pass."""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from sys import intern

from rigproof.criteria.criterion import Criterion, Disturbed, Finding, Limit, NotMeasured, Trouble
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.evidence import ENDED, Evidence
from rigproof.criteria.evidence.nodes import NodeEvidence
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.subjects import RIG, subjects
from rigproof.records.verdict import Direction, Outcome, Verdict, figure, figure_and_limit

WORST_FIRST = (
    Outcome.FAIL,
    Outcome.NOT_MEASURED,
    Outcome.WARN,
    Outcome.NO_LIMIT,
    Outcome.PASS,
    Outcome.NOT_APPLICABLE,
)
GOOD = (Outcome.PASS, Outcome.WARN)

About = Evidence | DeviceEvidence | NodeEvidence | SharedEvidence


def promised(
    criterion: Criterion, loaded: LoadedRig, stages: Collection[str] | None = None
) -> tuple[str, ...]:
    """The subjects that the profile promises for this criterion, known before anything runs.

    `stages` are those of the level, by default all: a criterion that needs another stage is not promised.
    """
    stages = loaded.kinds.names if stages is None else stages
    if criterion.needs_load and not criterion.loads(stages, loaded.kinds):
        return ()
    if criterion.scope == "rig":
        return (RIG,)
    devices = [
        device
        for device in loaded.devices()
        if (criterion.applies_to_cpu or device.gpu.device == "cuda") and criterion.holds_for(device)
    ]
    if criterion.scope == "device":
        return tuple(device.subject for device in criterion.eligible(loaded, devices))
    with_cuda = {device.node for device in loaded.devices() if device.gpu.device == "cuda"}
    names = [node.name for node in loaded.rig.nodes if criterion.applies_to_cpu or node.name in with_cuda]
    if criterion.name == "host.cpu_band":
        return tuple(name for name in names if loaded.cpu_of(name).enabled)
    fit = {*names, *(device.subject for device in devices)}
    return tuple(one.text for one in subjects(loaded, criterion.scope) if fit.issuperset(one.members))


def judge(criterion: Criterion, subject: str, evidence: Evidence) -> Verdict:
    """One verdict. Never raises because of a Recording's content; KeyError if the subject is not promised.

    If there were several attempts at a stage, all are judged (`of_attempts`), unless it looks at all itself.
    """
    last = _judged(criterion, subject, evidence)
    earlier = () if criterion.of_all_attempts else evidence.earlier_attempts
    each = [*(_judged(criterion, subject, one) for one in earlier), last]
    return of_attempts(criterion, each, evidence.marginal_share(subject))


def is_marginal(criterion: Criterion, verdict: Verdict, share: float | None) -> bool:
    """Whether a rate failed by less than `share` of its limit. Without a share no rate is marginal."""
    if not criterion.rate or not share or verdict.outcome is not Outcome.FAIL:
        return False
    if verdict.measured is None or verdict.limit is None:
        return False
    return verdict.limit * (1 - share) < verdict.measured < verdict.limit


def of_attempts(criterion: Criterion, each: Sequence[Verdict], share: float | None) -> Verdict:
    """One verdict from all attempts, in their order: the worst of them, and of those alike the last one.

    A rate that failed once, by less than `share`, and was good all other times warns.
    """
    latest = each[::-1]
    worst = min(latest, key=lambda one: WORST_FIRST.index(one.outcome))
    others = [one for one in latest if one is not worst]
    if is_marginal(criterion, worst, share) and others and all(one.outcome in GOOD for one in others):
        return replace(
            others[0],
            outcome=Outcome.WARN,
            detail=joined(_once([worst], each), others[0].detail),
            remedy=worst.remedy,
            severity=worst.severity,
        )
    if criterion.rate and worst.outcome is Outcome.FAIL:
        known = [one for one in each if one is not worst and one.measured is not None]
        return replace(worst, detail=joined(_once(known, each), worst.detail))
    return worst


ORDINALS = ("first", "second", "third", "fourth")
TIMES = ("", "once", "twice", "three times", "four times")


def _once(those: Sequence[Verdict], each: Sequence[Verdict]) -> str:
    """`measured twice, the first time 98.20 TFLOP/s`, with each of those; empty if there are none."""
    places = (next(place for place, any_ in enumerate(each) if any_ is one) for one in those)
    told = [
        f"the {ORDINALS[place]} time {figure(one.measured, one.unit, more_digits=1)}"
        for place, one in zip(places, those, strict=True)
        if one.measured is not None
    ]
    return ", ".join([f"measured {TIMES[len(each)]}", *told]) if told else ""


def joined(*parts: str) -> str:
    """The parts of a detail that are not empty."""
    return "; ".join(part for part in parts if part)


def _judged(criterion: Criterion, subject: str, evidence: Evidence) -> Verdict:
    """The verdict from one attempt at each stage."""
    about = _about(criterion, subject, evidence)
    not_requested = evidence.events.left_out.get((subject, criterion.name))
    if not_requested is not None:
        return not_judged(criterion, subject, not_requested)
    try:
        if not criterion.judges_absence and not isinstance(about, Evidence):
            about.require_found()
        finding = criterion.find(about)
        if finding.rates:
            evidence.rates_of(subject).update({one.figure: one for one in finding.rates})
        _require_figures(finding)
        if criterion.surroundings and finding.outcome is Outcome.FAIL:
            raise TypeError("it judges the surroundings and must not fail")
        if finding.outcome in (Outcome.FAIL, Outcome.WARN):
            _require_own_trouble(criterion, about, finding, evidence)
        if finding.outcome is not Outcome.FAIL:
            _require_stages(criterion, evidence)
    except NotMeasured as reason:
        verdict = not_judged(criterion, subject, _reason(about, reason), reason.outcome)
        return replace(verdict, remedy=reason.remedy, from_s=_finite(reason.from_s), of_run=reason.of_run)
    except Exception as error:  # a criterion with a bug must neither pass nor end the report
        return not_judged(criterion, subject, f"judging it failed: {type(error).__name__}: {error}")
    return _verdict(criterion, subject, finding)


def _reason(about: About, reason: NotMeasured) -> str:
    """The reason; for a device that was deliberately not loaded, the same for all its criteria."""
    left_out = about.left_out if isinstance(about, DeviceEvidence) else ""
    return left_out if left_out and left_out in reason.reason else reason.reason


def not_judged(
    criterion: Criterion, subject: str, reason: str, outcome: Outcome = Outcome.NOT_MEASURED
) -> Verdict:
    """NOT MEASURED or NOT APPLICABLE, for this reason."""
    return Verdict(criterion.name, subject, outcome, unit=criterion.unit, detail=reason)


def _about(criterion: Criterion, subject: str, evidence: Evidence) -> About:
    match criterion.scope:
        case "rig":
            return evidence
        case "device" | "node":
            return evidence.single(subject)
        case shared:
            return evidence.shared(shared, subject)


def _require_figures(finding: Finding) -> None:
    """NaN is neither over nor under any limit, so it must not reach a verdict."""
    for value in (finding.measured, finding.limit.value if finding.limit else None):
        if value is not None and not math.isfinite(value):
            raise NotMeasured(f"the figure is {value}, which is not a valid measurement")


def _require_own_trouble(criterion: Criterion, about: About, finding: Finding, evidence: Evidence) -> None:
    """A finding caused by another process is no finding about the subject."""
    if criterion.caused_by_others is None:
        return
    reason = criterion.caused_by_others(about, Trouble(finding, _loads(criterion, evidence)))
    if reason is not None:
        raise Disturbed(
            f"{reason}; so this is not the card's own: {_in_words(criterion, finding)}",
            "run again without it",
            finding.from_s,
        )


def _in_words(criterion: Criterion, finding: Finding) -> str:
    """A finding in words: the figure and its limit, and since when; without a figure the detail."""
    parts = []
    if finding.measured is not None and finding.limit is not None:
        unit, direction = finding.unit or criterion.unit, _direction(criterion, finding.limit)
        parts += figure_and_limit(finding.measured, finding.limit.value, unit, direction)
    if finding.from_s is not None:
        parts.append(f"from t={finding.from_s:.0f} s")
    return ", ".join(parts) or finding.detail


def _require_stages(criterion: Criterion, evidence: Evidence) -> None:
    """Only a complete load can pass; a failure in a part of it still counts."""
    incomplete = evidence.cached(("incomplete", criterion.name), lambda: _incomplete(criterion, evidence))
    if incomplete:
        raise NotMeasured(incomplete)


def _incomplete(criterion: Criterion, evidence: Evidence) -> str:
    """Why one of its loads is not complete; empty if all are."""
    try:
        for name in _loads(criterion, evidence):
            if evidence.stage(name).status not in ENDED:
                return f"the {name} stage was aborted"
            if evidence.kinds[name].duty == "continuous":
                evidence.complete_window(name)
    except NotMeasured as reason:
        return reason.reason
    return ""


def _loads(criterion: Criterion, evidence: Evidence) -> tuple[str, ...]:
    """The stages of the run that it judges."""
    key = ("loads", criterion.name)
    return evidence.cached(key, lambda: criterion.loads(evidence.stages, evidence.kinds))


def _verdict(criterion: Criterion, subject: str, finding: Finding) -> Verdict:
    limit = None if finding.excused else finding.limit
    source = finding.excused or (finding.source if limit is None else limit.source)
    troubled = finding.outcome in (Outcome.FAIL, Outcome.WARN)
    return Verdict(
        criterion.name,
        subject,
        finding.outcome,
        unit=finding.unit or criterion.unit,
        measured=finding.measured,
        limit=None if limit is None else limit.value,
        direction=None if limit is None else _direction(criterion, limit),
        limit_source=intern(source),  # the same for many
        detail=intern(finding.detail),
        remedy=(finding.remedy or criterion.remedy) if troubled else "",
        severity=(finding.severity or criterion.severity) if troubled else None,
        from_s=_finite(finding.from_s),
        length_s=_finite(finding.length_s),
        rates=tuple(one for one in finding.rates if not one.host_paced),
        of_run=finding.of_run,
    )


def _direction(criterion: Criterion, limit: Limit) -> Direction | None:
    return limit.direction or criterion.direction


def _finite(moment_s: float | None) -> float | None:
    """The time, or None if it is not finite; the finding counts all the same."""
    return moment_s if moment_s is not None and math.isfinite(moment_s) else None
