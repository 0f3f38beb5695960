"""Did a host restart under load? The driver's log has no trace of a power loss."""

from rigproof.criteria.criterion import Criterion, Finding, NotApplicable, NotMeasured, NotRead
from rigproof.criteria.evidence.nodes import NodeEvidence
from rigproof.profiles.kinds.stages import ALL_DUTIES
from rigproof.records.measurements import BootReading, Event
from rigproof.records.verdict import Outcome
from rigproof.simulation.faults.kinds import MID, TIMES, FaultKind

SOURCE = "the host's boot id, before and after the load"
ONE_CARD = "usually the power supply: check its rating, its cables and the outlet; else lower the power limit"
WENT_ON = "find the reason first (the kernel's out-of-memory killer, a user's `kill`), then run again"


@Criterion(
    "health.reset",
    title="host stayed up",
    scope="node",
    limit="the host's boot id is the same before and after the load",
    severity="reseat",
    remedy="usually the power supply: check its rating, its cables and the outlet; "
    "else load one card at a time, or lower the power limit",
    unmeasured="the run did not reach its end there: the node or its agent was lost, or the run was killed; "
    "not applicable if the boot id cannot be read, or is a container's own",
)
def reset(node: NodeEvidence) -> Finding:
    """The host did not restart under load, neither in this run nor, unreported, in an earlier one.

    The agent of each host logs its cards' state to the host's own disk once a second and before each stage,
    so that it is known what a host did before it went down. A run without an orderly end is found by the
    next run, which warns, and by `rigproof judge` of its folder.

    The usual cause is a power supply that cannot deliver the cards' peaks: each socket of a card needs a
    cable of its own. A profile with one GPU loads one card at a time; `nvidia-smi -pl` lowers the power
    limit, which `limits.power_limit_w` then states. After a freeze look for Xids.
    """
    for event in node.events("host_reset"):
        return Finding(
            Outcome.FAIL, detail=event.message, remedy=_remedy(node), source=SOURCE, from_s=event.t_s
        )
    readings = node.evidence.boots(node.subject)
    changed = _changed(readings)
    if changed is not None:
        return Finding(
            Outcome.FAIL,
            detail=f"{node.subject} restarted during the run: it has another boot id",
            remedy=_remedy(node),
            source=SOURCE,
            from_s=changed.t_s,
            of_run=True,
        )
    for event in node.events("driver_killed"):
        raise NotMeasured(event.message)
    _require_both(node, readings)
    earlier = sorted(node.events("unfinished_run"), key=_restarted_last)
    if earlier:
        return _earlier(node, earlier)
    return Finding(Outcome.PASS, detail=_passed(node), source=SOURCE)


def _changed(readings: list[BootReading]) -> BootReading | None:
    """The first reading that differs from one before it."""
    known = [one for one in readings if one.boot_id is not None]
    return next((one for one in known if one.boot_id != known[0].boot_id), None)


def _require_both(node: NodeEvidence, readings: list[BootReading]) -> None:
    """Require a boot id from before and one from after the load."""
    unread = [one for one in readings if one.boot_id is None]
    if unread and len(unread) == len(readings):
        raise NotApplicable(unread[0].reason or "the boot id cannot be read here")
    for moment in ("before", "after"):
        if not any(one.moment == moment and one.boot_id is not None for one in readings):
            lost = node.events("node_lost", "agent_died")
            why = f": {lost[0].message} (at t={lost[0].t_s:.0f} s)" if lost else ""
            raise NotRead(f"the boot id was not read {moment} the load{why}")


def _restarted_last(event: Event) -> tuple[bool, float]:
    return event.data.get("restarted") is True, event.t_s


def _remedy(node: NodeEvidence) -> str:
    """The remedy for a host with one card; empty if it has more, or none."""
    return ONE_CARD if len(node.node.gpus) == 1 else ""


def _earlier(node: NodeEvidence, events: list[Event]) -> Finding:
    """The worst of what earlier runs left: a restart, if there is one."""
    worst = events[-1]
    more = f" (and {len(events) - 1} more)" if len(events) > 1 else ""
    detail = f"an earlier run ({worst.data.get('run_id')}) never ended: {worst.message}{more}"
    if worst.data.get("restarted") is True:
        return Finding(Outcome.WARN, detail=detail, remedy=_remedy(node), source=SOURCE)
    return Finding(Outcome.WARN, detail=detail, remedy=WENT_ON, source=SOURCE, severity="config")


def _passed(node: NodeEvidence) -> str:
    """The observation, and what this host could not record."""
    seen = "the boot id is the same before and after the load"
    gaps = node.events("black_box")
    return f"{seen}; {gaps[0].message}" if gaps else seen


FAULTS = (
    FaultKind(
        "reset",
        "the host resets under load, and returns after `for=` with another boot id",
        ("health.reset",),
        scope="node",
        keys=TIMES,
        defaults={**MID, "for": "8"},
        duties=ALL_DUTIES,
        brief=True,
    ),
    FaultKind(
        "reset-before",
        "the host reset during the previous run, which never ended",
        ("health.reset",),
        scope="node",
        ends="warns",
    ),
)
