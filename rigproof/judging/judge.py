"""From criteria and evidence to verdicts. An error here gives NOT MEASURED, never a pass."""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from rigproof.criteria.criterion import Criterion, Finding, NotMeasured, Trouble
from rigproof.criteria.evidence.evidence import ENDED, Evidence
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.criteria.evidence.subjects import DeviceEvidence, NodeEvidence
from rigproof.judging.attempts import of_both
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.roots import with_roots
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.subjects import RIG, subjects
from rigproof.records.champions import Champions
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, Verdict, figure_and_limit
from rigproof.stages.registry import KINDS

About = Evidence | DeviceEvidence | NodeEvidence | SharedEvidence
# Of subjects that are judged together: arrays as long as that, a hundred of them, take little memory.
SAMPLES_TOGETHER = 20_000
Figures = dict[str, dict[str, Any]]  # by name and by device


@dataclass(frozen=True, slots=True)
class Part:
    """The verdicts for some of the subjects, and the figures by which devices are compared."""

    verdicts: list[Verdict]
    compared: Figures
    earlier: Figures  # the same for the first attempt, if there were two


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
        return tuple(device.subject for device in criterion.among(loaded, devices))
    with_cuda = {device.node for device in loaded.devices() if device.gpu.device == "cuda"}
    names = [node.name for node in loaded.rig.nodes if criterion.applies_to_cpu or node.name in with_cuda]
    if criterion.name == "host.cpu_band":
        return tuple(name for name in names if loaded.cpu_of(name).enabled)
    fit = {*names, *(device.subject for device in devices)}
    return tuple(one.text for one in subjects(loaded, criterion.scope) if fit.issuperset(one.members))


def judge(criterion: Criterion, subject: str, evidence: Evidence) -> Verdict:
    """One verdict. Never raises because of a Recording's content; KeyError if the subject is not promised.

    If a stage was measured once more, both attempts are judged (`of_both`).
    """
    last = _judged(criterion, subject, evidence)
    if evidence.earlier is None:
        return last
    first = _judged(criterion, subject, evidence.earlier)
    return of_both(criterion, first, last, evidence.marginal_share(subject))


def _judged(criterion: Criterion, subject: str, evidence: Evidence) -> Verdict:
    """The verdict from one attempt at each stage."""
    about = _about(criterion, subject, evidence)
    for event in evidence.events_of(subject, "left_out"):
        if event.data.get("criterion") == criterion.name:
            return not_judged(criterion, subject, event.message)
    try:
        if not criterion.judges_absence and not isinstance(about, Evidence):
            about.require_found()
        finding = criterion.find(about)
        _require_figures(finding)
        if finding.outcome in (Outcome.FAIL, Outcome.WARN):
            _require_own_trouble(criterion, about, finding, evidence)
        if finding.outcome is not Outcome.FAIL:
            _require_stages(criterion, evidence)
    except NotMeasured as reason:
        return not_judged(criterion, subject, _reason(about, reason), reason.outcome)
    except Exception as error:  # a criterion with a bug must neither pass nor end the report
        return not_judged(criterion, subject, f"judging it failed: {type(error).__name__}: {error}")
    return _verdict(criterion, subject, finding)


def _reason(about: About, reason: NotMeasured) -> str:
    """The reason; for a device that was deliberately not loaded, the same for all its criteria."""
    left_out = about.left_out if isinstance(about, DeviceEvidence) else ""
    return left_out if left_out and left_out in reason.reason else reason.reason


class Judgement:
    """Judges every promised criterion for every promised subject.

    `loaded` and `champions` replace the recorded ones; `planned_by` is then the profile that the run was
    planned by.

    Some subjects are judged together, and their data is freed before the next ones; comparisons come last.
    Parts of the subjects can be judged in separate processes.
    """

    def __init__(
        self,
        recording: Recording,
        loaded: LoadedRig | None = None,
        champions: Champions | None = None,
        planned_by: LoadedRig | None = None,
    ) -> None:
        rig = loaded if loaded is not None else LoadedRig.restore(recording.run.rig, KINDS)
        self._evidence = Evidence(recording, rig, champions, planned_by)
        self._tasks = [
            (criterion, subject)
            for criterion in CATALOGUE.values()
            for subject in promised(criterion, rig, self._evidence.stages)
        ]
        self._by_subject: dict[str, set[str]] = {}  # the names of its criteria
        for criterion, subject in self._tasks:
            if not criterion.compares:
                self._by_subject.setdefault(subject, set()).add(criterion.name)

    @property
    def _together(self) -> int:
        """How many subjects are judged together: so many that they have SAMPLES_TOGETHER on average."""
        samples = len(self._evidence.recording.gpu_samples)
        return max(1, SAMPLES_TOGETHER * len(self._by_subject) // max(1, samples))

    @property
    def subjects(self) -> list[str]:
        """The subjects of which each can be judged without the others."""
        return list(self._by_subject)

    def part(self, subjects: Iterable[str]) -> Part:
        """The verdicts for these subjects, without comparisons."""
        verdicts = []
        remaining = list(subjects)
        number = self._together
        for together in (remaining[place : place + number] for place in range(0, len(remaining), number)):
            self._evidence.join(together)
            # Not subject by subject: what a criterion needs of code and data stays in the processor's caches.
            for name, criterion in CATALOGUE.items():
                verdicts += [
                    judge(criterion, subject, self._evidence)
                    for subject in together
                    if name in self._by_subject[subject]
                ]
            self._evidence.release(together)
        earlier = self._evidence.earlier
        return Part(
            verdicts,
            dict(self._evidence.compared),
            {} if earlier is None else dict(earlier.compared),
        )

    def whole(self, parts: Iterable[Part]) -> list[Verdict]:
        """All verdicts, in the catalogue's order, from parts that together cover all subjects."""
        found = {}
        for part in parts:
            _add(self._evidence, part.compared)
            if self._evidence.earlier is not None:
                _add(self._evidence.earlier, part.earlier)
            found.update({(one.criterion, one.subject): one for one in part.verdicts})
        verdicts = [
            judge(criterion, subject, self._evidence)
            if criterion.compares
            else found[criterion.name, subject]
            for criterion, subject in self._tasks
        ]
        return with_roots(verdicts, self._evidence)


def _add(evidence: Evidence, figures: Figures) -> None:
    for name, by_device in figures.items():
        evidence.compared[name].update(by_device)


def judge_all(
    recording: Recording,
    loaded: LoadedRig | None = None,
    champions: Champions | None = None,
) -> list[Verdict]:
    """All verdicts, judged in this process."""
    judgement = Judgement(recording, loaded, champions)
    return judgement.whole([judgement.part(judgement.subjects)])


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


def _require_own_trouble(
    criterion: Criterion,
    about: About,
    finding: Finding,
    evidence: Evidence,
) -> None:
    """A finding caused by another process is no finding about the subject."""
    if criterion.explained is None:
        return
    reason = criterion.explained(about, Trouble(finding, _loads(criterion, evidence)))
    if reason is not None:
        raise NotMeasured(f"{reason}; so this is not the card's own: {_in_words(criterion, finding)}")


def _in_words(criterion: Criterion, finding: Finding) -> str:
    """A finding in words: the figure and its limit, since when, and the detail."""
    parts = []
    if finding.measured is not None and finding.limit is not None:
        parts += figure_and_limit(finding.measured, finding.limit.value, criterion.unit)
    if finding.from_s is not None:
        parts.append(f"from t={finding.from_s:.0f} s")
    return ", ".join(filter(None, [*parts, finding.detail]))


def _require_stages(criterion: Criterion, evidence: Evidence) -> None:
    """Only a complete load can pass; a failure in a part of it still counts."""
    incomplete = evidence.kept(("incomplete", criterion.name), lambda: _incomplete(criterion, evidence))
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
    return evidence.kept(key, lambda: criterion.loads(evidence.stages, evidence.kinds))


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
        rates=finding.rates,
    )


def _finite(moment_s: float | None) -> float | None:
    """The time, or None if it is not finite; the finding counts all the same."""
    return moment_s if moment_s is not None and math.isfinite(moment_s) else None


__all__ = ["Judgement", "Part", "judge", "judge_all", "not_judged", "promised"]
