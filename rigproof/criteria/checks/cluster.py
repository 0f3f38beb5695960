"""Are all nodes there, and does no process hang?"""

from collections.abc import Sequence

from rigproof.criteria.criterion import Criterion, Disturbed, Finding, Limit, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.evidence import ENDED, Evidence
from rigproof.criteria.evidence.nodes import NodeEvidence
from rigproof.criteria.evidence.want_of_memory import for_want_of_memory
from rigproof.profiles.kinds.stages import ALL_DUTIES, DEVICE_DUTIES
from rigproof.profiles.planning.subjects import RIG
from rigproof.records.measurements import Event
from rigproof.records.verdict import FOLLOWS, Outcome
from rigproof.simulation.faults.kinds import FROM, MID, FaultKind

FIRST_LOSS = "start with the first loss, later ones often follow from it"
NEVER_STARTED = "find out what kept the agent from starting, and run again"
# The event kinds of a failed wait or a lost process.
LOSSES = ("timeout", "worker_hung", "worker_died", "worker_failed", "agent_died")


@Criterion(
    "cluster.nodes_present",
    title="node present",
    scope="node",
    limit="the nodes that the rig profile promises",
    severity="config",
    remedy="switch that machine on, check its network cable, and run its `ray start` line there, which "
    "`rigproof cluster lines PROFILE` prints",
    unmeasured="the run was given no cluster in which the node could be, or the cluster did not start; the "
    "node is in it, but its agent did not start, which measures nothing; the run was of another rig and did "
    "not look for it; or an event is of no node or device of the rig or of the run",
    judges_absence=True,
)
def nodes_present(node: NodeEvidence) -> Finding:
    """The promised node joined the cluster and stayed in it until the end."""
    for event in node.events("node_missing", "node_lost"):
        if "disturbed" in event.data:
            raise Disturbed(event.message, str(event.data["disturbed"]))
        lost = event.kind == "node_lost"
        if node.found and not lost:
            raise NotMeasured(f"{event.message}; and it answered: these records contradict each other")
        remedy = event.data.get("next_step", "")
        if node.events("host_reset"):
            remedy = f"{FOLLOWS}health.reset of {node.subject}, it restarted and is back"
        return Finding(Outcome.FAIL, detail=event.message, remedy=remedy, from_s=event.t_s if lost else None)
    if node.found:
        node.evidence.require_placed(node.subject)
        return Finding(Outcome.PASS, detail=f"answered from {node.identity.address}")
    for event in node.events("agent_died"):  # it was in the cluster
        raise Disturbed(event.message, str(event.data.get("disturbed", NEVER_STARTED)))
    if not looked_for(node.evidence):
        raise NotMeasured("the run ended before its nodes were looked for")
    require_promised_then(node.evidence, node.subject)
    return Finding(Outcome.FAIL, detail=f"{node.subject} did not answer")


def require_promised_then(evidence: Evidence, subject: str) -> None:
    """NotMeasured for an absent node or GPU that the run does not mention: it never looked for it.

    A run mentions each node and GPU of its own profile; so this run is of another profile.
    """
    events = evidence.recording.events
    mentioned = evidence.cached("mentioned", lambda: frozenset(event.subject for event in events))
    if any(one == subject or one.startswith(f"{subject}/") for one in mentioned):
        return
    known = ", ".join(sorted({*evidence.recording.nodes, *evidence.recording.gpus})) or "nothing"
    raise NotMeasured(
        f"this run did not look for {subject}: it was of another rig and found {known}; judge it by a "
        "profile with these names (`rigproof judge` without --hwprofile takes its own), or run again with "
        "this profile"
    )


def _of_node(rig: Evidence, loss: Event) -> str:
    """The remedy for a loss that follows from its node's; empty if the node stayed."""
    node = loss.subject.partition("/")[0]
    for kind, root in (("host_reset", "health.reset"), ("node_lost", "cluster.nodes_present")):
        if rig.events.of(node, kind):
            return f"{FOLLOWS}{root} of {node}, see there first"
    return ""


def _next_step(loss: Event) -> str:
    """The remedy for a loss, by what was lost or waited for."""
    setting = loss.data.get("setting")  # the profile's setting of the deadline that passed
    node = loss.subject.partition("/")[0]
    if setting:
        return f"end the other programs on that host, or raise {setting}"
    if loss.worker:
        return f"look in `sudo dmesg` of {node} for an Xid, a crash or a kill at that time, then run again"
    if loss.kind == "agent_died":
        return (
            f"look in `sudo dmesg` of {node} for what ended its agent, such as a lack of memory, and check "
            "whether the node still answers"
        )
    if loss.data.get("query") or loss.data.get("pids"):
        where = "that node" if node == RIG else node
        return f"the driver hangs: look for its Xid in `sudo dmesg` of {where}, then restart the machine"
    return ""


def _who(losses: Sequence[Event]) -> str:
    """The first loss, and how many there are."""
    first = losses[0]
    more = f" (and {len(losses) - 1} more)" if len(losses) > 1 else ""
    return f"{first.worker or first.subject}: {first.message}{more}"


def looked_for(evidence: Evidence) -> bool:
    """Whether the cluster started far enough for an absent node or GPU to count as missing."""
    recording = evidence.recording
    if evidence.events.of_kind("node_missing") or evidence.events.of_kind("gpu_missing"):
        return True
    aborted = bool(evidence.events.of_kind("interrupted")) and not recording.stages
    return bool(recording.nodes) and not aborted


def losses_of(rig: Evidence) -> list[Event]:
    """Passed deadlines and lost processes in the order of time; marked (`data.disturbed`) if by others."""
    found = (for_want_of_memory(rig, event) for kind in LOSSES for event in rig.events.of_kind(kind))
    return sorted(found, key=lambda event: event.t_s)


@Criterion(
    "cluster.no_timeouts",
    title="timeouts and losses",
    scope="rig",
    unit="faults",
    direction="at_most",
    limit="no wait past its deadline (as Ray's `Get timed out`) and no lost process: any of them leaves a "
    "training session hanging",
    severity="isolate",
    remedy=FIRST_LOSS,
    unmeasured="no stage ran, or one was aborted before its waits were over; or the only losses are "
    "processes that never started, that Ray's memory monitor or the kernel's OOM killer ended, children of "
    "workers that were killed (SIGKILL), tasks that found no memory while others held the card's, or waits "
    "during which others left the host less than `cpu.starved_percent` of the CPU time that the run needs, "
    "which is not the rig's doing",
)
def no_timeouts(rig: Evidence) -> Finding:
    """Every wait ended within its deadline; no worker and no node agent failed, died or hung."""
    losses = losses_of(rig)
    own = [event for event in losses if "disturbed" not in event.data]
    none = Limit(0, "each wait's own deadline")
    if own:
        first = own[0]
        step = _of_node(rig, first) or _next_step(first)
        return Finding(Outcome.FAIL, len(own), none, _who(own), step, from_s=first.t_s)
    if losses:
        first = losses[0]
        raise Disturbed(_who(losses), str(first.data["disturbed"]), first.t_s)
    if not any(stage.workers for stage in rig.recording.stages.values()):
        raise NotMeasured("no stage had a worker to wait for")
    for stage in rig.recording.stages.values():
        if stage.status not in ENDED:
            raise NotMeasured(f"the {stage.name} stage was aborted")
    return pass_or_fail(0, none, good=True)


FAULTS = (
    FaultKind(
        "node-missing",
        "a promised node never joins the cluster",
        ("cluster.nodes_present",),
        scope="node",
    ),
    FaultKind(
        "node-lost",
        "a node leaves the cluster while it works",
        ("cluster.nodes_present",),
        scope="node",
        keys=FROM,
        defaults=MID,
        duties=ALL_DUTIES,
    ),
    FaultKind(
        "nvml-hang",
        "NVML calls for the card never return",
        ("cluster.no_timeouts",),
        keys=FROM,
        defaults=MID,
        duties=DEVICE_DUTIES,
    ),
    FaultKind(
        "hung-kernel",
        "a kernel never ends: there is no further round",
        ("cluster.no_timeouts",),
        keys=FROM,
        defaults={"after": "30%"},
        duties=DEVICE_DUTIES,
        of_task=True,
    ),
    FaultKind(
        "worker-killed",
        "a worker's process is killed",
        ("cluster.no_timeouts",),
        keys=FROM,
        defaults=MID,
        duties=ALL_DUTIES,
    ),
    FaultKind(
        "worker-frozen",
        "a worker's process no longer answers",
        ("cluster.no_timeouts",),
        keys=FROM,
        defaults={"after": "30%"},
        duties=ALL_DUTIES,
    ),
    FaultKind(
        "timeout",
        "a worker's task does not end in time",
        ("cluster.no_timeouts",),
        keys=("stage",),
        duties=ALL_DUTIES,
        of_task=True,
    ),
)
