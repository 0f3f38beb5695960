"""Root causes: a rate falls with the clock, a host that restarted does no work, an idle card lowers its link.

Only the remedy changes: that of a failure whose criterion gave just its general one, which then asks for no
action of its own, and has no severity; and that of what was not measured because its subject was lost or
idled. The outcomes remain as each criterion found them by itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rigproof.criteria.checks.activity import active_in
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.fed import WAITED, idled
from rigproof.criteria.evidence.nodes import NodeEvidence
from rigproof.judging.catalogue import CATALOGUE
from rigproof.profiles.planning.subjects import RIG, subjects
from rigproof.records.verdict import FOLLOWS, Outcome, Verdict

Member = DeviceEvidence | NodeEvidence


@dataclass(frozen=True, slots=True)
class Root:
    """A criterion whose failure explains others of the same device, and of the pairs with that device.

    `events`: it counts only with an event of one of these kinds on the device, since another device may have
    caused the failure. `slows`: it explains low rates, but not lost work. `between`: it is about two nodes,
    and explains what both take part in.
    """

    criterion: str
    events: tuple[str, ...] = ()
    slows: bool = False
    between: bool = False


IDLE = "activity.gpu_active"  # of a device that did nothing although nothing kept it from working

# An earlier one explains the later ones.
ROOTS = (
    Root("health.reset"),
    Root("cluster.nodes_present"),
    Root("inventory.gpus_present"),
    Root("memory.no_oom"),
    Root("cluster.no_timeouts", ("worker_failed", "worker_died", "worker_hung", "agent_died")),
    Root("lan.bandwidth", slows=True, between=True),
    Root("thermal.throttle", slows=True),
    Root("clock.ratio", slows=True),
    Root(IDLE, slows=True),
)
# What was lost in the run is not measured from then on.
LOSSES = (
    Root("health.reset", ("host_reset",)),
    Root("cluster.nodes_present", ("node_lost",)),
    Root("inventory.gpus_present", ("gpu_lost",)),
)
RATES = ("throughput", "history")  # these families, and whatever else has a floor, are rates
WORK = ("activity.gpu_active", "memory.success_rate")


def with_roots(verdicts: Sequence[Verdict], evidence: Evidence) -> list[Verdict]:
    """The verdicts, with the failure that caused them named in the remedy of those that follow from one."""
    failed = {(one.criterion, one.subject) for one in verdicts if one.outcome is Outcome.FAIL}
    if not failed:
        return list(verdicts)
    by_others = [one for one in verdicts if one.criterion == IDLE and not _did_nothing(one, failed, evidence)]
    failed -= {(IDLE, one.subject) for one in by_others}
    failed -= {(one.criterion, one.subject) for one in verdicts if _idled_then(one, failed, evidence)}
    change = {Outcome.FAIL: _with_root, Outcome.NOT_MEASURED: _with_loss}
    return [change[one.outcome](one, failed, evidence) if one.outcome in change else one for one in verdicts]


def _did_nothing(verdict: Verdict, failed: set[tuple[str, str]], evidence: Evidence) -> bool:
    """Whether GPU active fails as the device idled: not by a lost worker, a wrong result, a stuck clock."""
    device = evidence.device(verdict.subject)
    if (IDLE, verdict.subject) not in failed or verdict.remedy != CATALOGUE[IDLE].remedy or device.cause():
        return False
    if any(_roots(verdict, failed, evidence)):
        return False
    lacked_work = verdict.length_s is None
    return lacked_work or idled(device, verdict.from_s, verdict.length_s)


def _idled_then(verdict: Verdict, failed: set[tuple[str, str]], evidence: Evidence) -> bool:
    """Whether it is a failure that was seen while its device idled, which can cause such a one."""
    if verdict.outcome is not Outcome.FAIL or (IDLE, verdict.subject) not in failed:
        return False
    criterion = CATALOGUE[verdict.criterion]
    if criterion.idling != "fails" or verdict.remedy not in (criterion.remedy, WAITED):
        return False
    return idled(evidence.device(verdict.subject), verdict.from_s, verdict.length_s)


def _with_loss(verdict: Verdict, failed: set[tuple[str, str]], evidence: Evidence) -> Verdict:
    """What was not measured names the loss of its subject, or that it idled, if that is a failure."""
    if verdict.remedy:
        return verdict
    members = _members(verdict, evidence)
    lost = _found(LOSSES, members, failed, evidence)
    found = next(lost, None) or next(_idle(verdict, members or evidence.devices, failed), None)
    if found is None:
        return verdict
    detail = _without_cause(verdict, evidence) or verdict.detail
    return replace(verdict, remedy=f"{FOLLOWS}{found}, see there first", detail=detail)


def _idle(verdict: Verdict, members: Sequence[Member], failed: set[tuple[str, str]]) -> Iterator[str]:
    """The devices whose idling left a criterion not measured, the node's for a criterion of a node."""
    criterion = CATALOGUE[verdict.criterion]
    a_rate = verdict.family in RATES or criterion.floored or criterion.rate
    if not (a_rate or criterion.idling):
        return
    for one in _devices(members):
        active = [active_in(one, stage) for stage in criterion.stages]
        if (IDLE, one.subject) in failed and not (active and all(active)):
            yield f"{IDLE} of {one.subject}"


def _devices(members: Sequence[Member]) -> Iterator[DeviceEvidence]:
    for member in members:
        yield from member.devices if isinstance(member, NodeEvidence) else (member,)


def _with_root(verdict: Verdict, failed: set[tuple[str, str]], evidence: Evidence) -> Verdict:
    if _idled_then(verdict, failed, evidence):
        found: str | None = f"{IDLE} of {verdict.subject}"
    elif verdict.remedy == CATALOGUE[verdict.criterion].remedy:
        found = next(_roots(verdict, failed, evidence), None)
    else:
        return verdict
    if found is None:
        return verdict
    detail = _without_cause(verdict, evidence)
    return replace(verdict, remedy=f"{FOLLOWS}{found}, see there first", detail=detail, severity=None)


def _without_cause(verdict: Verdict, evidence: Evidence) -> str:
    """Its detail without what the root says, too."""
    about = evidence.single(verdict.subject) if verdict.subject in evidence.recording.gpus else None
    cause = about.cause() if isinstance(about, DeviceEvidence) else ""
    detail = verdict.detail
    first = cause.rpartition(" (at t=")[0].removeprefix("its task failed: ")
    for text in (f"first: {first}", cause) if cause else ():
        for before in ("; ", ", ", ""):
            detail = detail.replace(f"{before}{text}", "")
    return detail.strip(",; ")


def _roots(verdict: Verdict, failed: set[tuple[str, str]], evidence: Evidence) -> Iterator[str]:
    """The failures that explain a verdict, such as `clock.ratio of pc1/gpu0`, the first cause first."""
    criterion = CATALOGUE[verdict.criterion]
    if criterion.sum_of:
        parts = (one.subject for one in evidence.devices if (criterion.sum_of, one.subject) in failed)
        yield from (f"{criterion.sum_of} of {subject}" for subject in parts)
    a_rate = verdict.family in RATES or criterion.floored
    if criterion.scope in ("device", "node") and not (a_rate or verdict.criterion in WORK):
        return
    a_rate = a_rate or criterion.rate
    members = _members(verdict, evidence)
    # What idled in another stage than the rate's did not lower it.
    idle = any(active_in(one, stage) is False for one in _devices(members) for stage in criterion.stages)
    roots = [
        root for root in ROOTS
        if root.criterion != criterion.name
        and (a_rate or not root.slows) and (root.criterion != IDLE or idle)
    ]  # fmt: skip
    yield from _found(roots, members, failed, evidence)


def _members(verdict: Verdict, evidence: Evidence) -> Sequence[Member]:
    """The devices or nodes that it is about; none for the rig."""
    match CATALOGUE[verdict.criterion].scope:
        case "rig":
            return ()
        case "device" | "node":
            return (evidence.single(verdict.subject),)
        case shared:
            return evidence.shared(shared, verdict.subject).members


def _found(
    roots: Sequence[Root], members: Sequence[Member], failed: set[tuple[str, str]], evidence: Evidence
) -> Iterator[str]:
    """The roots that failed on one of the members, its node or the rig, or between two of their nodes."""
    nodes = {member.node_name for member in members}
    for root in roots:
        for pair in subjects(evidence.loaded, "node_ring") if root.between else ():
            if nodes.issuperset(pair.members) and (root.criterion, pair.text) in failed:
                yield f"{root.criterion} of {pair.text}"
        for member in () if root.between else members:
            own = (member.subject, member.node_name)
            if root.events and not any(evidence.events.of(subject, *root.events) for subject in own):
                continue
            for subject in (*own, RIG):
                if (root.criterion, subject) in failed:
                    yield f"{root.criterion} of {subject}"
