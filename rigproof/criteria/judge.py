"""From criteria and evidence to verdicts. Whatever goes wrong here is NOT MEASURED, never a pass."""

import math
from collections.abc import Collection

from rigproof.criteria.catalogue import CATALOGUE
from rigproof.criteria.criterion import Criterion, Finding, NotMeasured
from rigproof.criteria.evidence import ENDED, Evidence
from rigproof.criteria.subjects import DeviceEvidence, NodeEvidence
from rigproof.profiles.loaded import LoadedRig
from rigproof.profiles.plan import STAGES
from rigproof.records.champions import Champions
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, Verdict

RIG = "rig"


def promised(criterion: Criterion, loaded: LoadedRig, stages: Collection[str] = STAGES) -> tuple[str, ...]:
    """The subjects that the profile promises this criterion for, known before anything runs.

    `stages` are those that the level has: a criterion that needs another one is not promised at it.
    """
    if not set(criterion.stages) <= set(stages):
        return ()
    if criterion.scope == "rig":
        return (RIG,)
    devices = loaded.devices()
    if criterion.scope == "device":
        return tuple(
            device.subject
            for device in devices
            if (criterion.applies_to_cpu or device.gpu.device == "cuda") and criterion.holds_for(device)
        )
    with_cuda = {device.node for device in devices if device.gpu.device == "cuda"}
    names = (node.name for node in loaded.rig.nodes if criterion.applies_to_cpu or node.name in with_cuda)
    if criterion.name == "host.cpu_band":
        return tuple(name for name in names if loaded.cpu_of(name).enabled)
    return tuple(names)


def judge(criterion: Criterion, subject: str, evidence: Evidence) -> Verdict:
    """One verdict. Never raises for what a Recording holds; KeyError where the subject is not promised."""
    about = _about(criterion, subject, evidence)
    for event in evidence.events.get("left_out", ()):
        if (event.data.get("criterion"), event.subject) == (criterion.name, subject):
            return not_judged(criterion, subject, event.message)
    try:
        if not criterion.judges_absence and not isinstance(about, Evidence) and not about.found:
            raise NotMeasured(f"{subject} was not found")
        finding = criterion.find(about)
        _require_figures(finding)
        if finding.outcome is not Outcome.FAIL:
            _require_stages(criterion, evidence)
    except NotMeasured as reason:
        return not_judged(criterion, subject, reason.reason, required=reason.required)
    except Exception as error:  # a criterion that breaks must neither pass nor end the report
        return not_judged(criterion, subject, f"judging it failed: {type(error).__name__}: {error}")
    return _verdict(criterion, subject, finding)


def judge_all(
    recording: Recording,
    loaded: LoadedRig | None = None,
    champions: Champions | None = None,
) -> list[Verdict]:
    """Every promised criterion on every promised subject, by the recorded profile and champions or others."""
    rig = loaded if loaded is not None else LoadedRig.restore(recording.run.rig)
    evidence = Evidence(recording, rig, champions)
    stages = recording.run.stages or evidence.plan.stage_names
    return [
        judge(criterion, subject, evidence)
        for criterion in CATALOGUE.values()
        for subject in promised(criterion, rig, stages)
    ]


def not_judged(criterion: Criterion, subject: str, reason: str, *, required: bool = True) -> Verdict:
    """NOT MEASURED, for this reason."""
    return Verdict(
        criterion.name,
        subject,
        Outcome.NOT_MEASURED,
        unit=criterion.unit,
        detail=reason,
        remedy="",
        required=required,
    )


def _about(
    criterion: Criterion, subject: str, evidence: Evidence
) -> Evidence | DeviceEvidence | NodeEvidence:
    if criterion.scope == "rig":
        return evidence
    return evidence.device(subject) if criterion.scope == "device" else evidence.node(subject)


def _require_figures(finding: Finding) -> None:
    """NaN compares as neither over nor under any limit, so it must not reach a verdict."""
    for value in (finding.measured, finding.limit.value if finding.limit else None):
        if value is not None and not math.isfinite(value):
            raise NotMeasured(f"the figure is {value}, which is no measurement")


def _require_stages(criterion: Criterion, evidence: Evidence) -> None:
    """Only a load that was complete can pass; what went wrong in a part of it still fails."""
    for name in criterion.stages:
        stage = evidence.stage(name)
        if stage.status not in ENDED:
            raise NotMeasured(f"the {name} stage was broken off")
        if name == "sustained":
            evidence.complete_window(name)


def _verdict(criterion: Criterion, subject: str, finding: Finding) -> Verdict:
    limit = finding.limit
    troubled = finding.outcome in (Outcome.FAIL, Outcome.WARN)
    return Verdict(
        criterion.name,
        subject,
        finding.outcome,
        unit=criterion.unit,
        measured=finding.measured,
        limit=None if limit is None else limit.value,
        limit_source=finding.source if limit is None else limit.source,
        detail=finding.detail,
        remedy=(finding.remedy or criterion.remedy) if troubled else "",
        from_s=_finite(finding.from_s),
        length_s=_finite(finding.length_s),
    )


def _finite(moment_s: float | None) -> float | None:
    """A moment that can be shown; a record without a finite one still counts."""
    return moment_s if moment_s is not None and math.isfinite(moment_s) else None


__all__ = ["RIG", "judge", "judge_all", "not_judged", "promised"]
