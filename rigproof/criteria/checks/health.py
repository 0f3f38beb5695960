"""Errors that the driver itself reports."""

from collections.abc import Sequence
from operator import attrgetter

from rigproof.criteria.criterion import (
    Criterion,
    Finding,
    Limit,
    NotApplicable,
    NotMeasured,
    NotRead,
    pass_or_fail,
)
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.strangers import crashed_by
from rigproof.profiles.kinds.stages import DEVICE_DUTIES
from rigproof.profiles.loading.xids import FILE, Action, XidCatalogue, XidOutcome
from rigproof.profiles.tables.limits import LIMITS
from rigproof.records.measurements import Event
from rigproof.records.verdict import Outcome
from rigproof.simulation.faults.kinds import FROM, MID, FaultKind

XID_FAIL = LIMITS.key(lambda limits: limits.xid_fail)
XID_WARN = LIMITS.key(lambda limits: limits.xid_warn)

LISTENING = "nvmlEventSetWait_v2"  # the query that returns Xids
FOLLOWS_ANOTHER = (43, 45)  # work that stopped because of an earlier fault
NOTHING_WANTED = 0  # NVML_GPU_RECOVERY_ACTION_NONE
UNKNOWN_ACTION = Action(
    severity="reset", step="read the GPU recovery action in `nvidia-smi -q`, and carry it out"
)


@Criterion(
    "health.xid",
    title="Xid errors",
    unit="Xids",
    direction="at_most",
    limit="`hwprofiles/xids.toml`, where each Xid has its meaning, outcome, action and source: `fail` "
    "fails, all others warn, including numbers in no catalogue; `limits.xid_fail` and `limits.xid_warn` take "
    "precedence. A recovery action that NVML reports before or after the load fails, even without an Xid",
    limits=(XID_FAIL, XID_WARN),
    severity="isolate",
    remedy="the action in hwprofiles/xids.toml; look up an Xid that it lacks in NVIDIA's Xid "
    "documentation and in `sudo dmesg`",
    unmeasured="Xids were not received for a while: the node or its agent died, an NVML call failed or hung, "
    "or the GPU was lost; the driver reported its recovery action before the load, and not after it; or an "
    "Xid is of no device of the rig or of the run. Not applicable if the driver delivers no Xids",
    applies_to_cpu=False,
    needs=("continuous",),
    caused_by_others=crashed_by,
)
def xid(device: DeviceEvidence) -> Finding:
    """The driver reports no Xid for this GPU and no recovery action: no reset, no restart.

    The root Xid is named first, before those that follow from it.
    """
    events = device.events("xid")
    fatal = [event for event in events if xid_outcome(device, event) == "fail"]
    if fatal:
        return _fatal(device, [fatal[0], _root(events), *events])
    wanted = _wanted(device)
    if wanted is not None:
        request, action = wanted
        detail = "; ".join([request, *_listed(device, events)])
        source = "NVML's recovery action"
        return Finding(
            Outcome.FAIL,
            detail=detail,
            remedy=action.step,
            source=source,
            severity=action.severity,
            of_run=not events,
        )
    device.require_placed("xid")
    _require_listener(device)
    _require_last_word(device)
    none = Limit(0, FILE)
    if not events:
        if not device.identity.xid_supported:
            raise NotApplicable("the driver delivers no Xid events here")
        return pass_or_fail(0, none, good=True)
    root = _root(events)
    detail = "; ".join(_listed(device, [root, *events]))
    # An Xid that is not the program's own error gives the remedy, even if it came later.
    decisive = next((event for event in events if xid_outcome(device, event) != "program"), root)
    action = _action(device, _code(decisive))
    return Finding(
        Outcome.WARN, len(events), none, detail, action.step, from_s=root.t_s, severity=action.severity
    )


def _fatal(device: DeviceEvidence, events: Sequence[Event]) -> Finding:
    """A failure for the first of the events, which may contain one twice."""
    code = _code(events[0])
    stated, file = device.stated(XID_FAIL)
    limit = Limit(0, file if code in (stated or ()) else FILE)
    number = len({id(event) for event in events})
    detail = "; ".join(_listed(device, events))
    action = _action(device, code)
    return pass_or_fail(
        number,
        limit,
        good=False,
        detail=detail,
        remedy=action.step,
        severity=action.severity,
        from_s=events[0].t_s,
    )


def _action(device: DeviceEvidence, code: int | None) -> Action:
    """The action for an Xid number; for one in no catalogue, to look it up."""
    known = device.evidence.loaded.xids.action(code)
    if known is not None:
        return known
    step = "look it up in NVIDIA's Xid documentation and in `sudo dmesg`"
    if code is not None and code not in (device.stated(XID_FAIL)[0] or ()):
        step += f"; `limits.xid_fail = [{code}]` makes it fail"
    return Action(severity="isolate", step=step)


def _wanted(device: DeviceEvidence) -> tuple[str, Action] | None:
    """The driver's recovery action in words, and what to do; None if there is none or it is unknown."""
    for moment in ("after", "before"):
        action = _recovery_action(device, moment)
        if action is not None and action != NOTHING_WANTED:
            return _named(device.evidence.loaded.xids, action, moment)
    return None


def _recovery_action(device: DeviceEvidence, moment: str) -> int | None:
    counters = device.counters(moment)
    return None if counters is None else counters.recovery_action


def _require_last_word(device: DeviceEvidence) -> None:
    """NotRead if the driver reported a recovery action before the load and not after it."""
    if _recovery_action(device, "before") is not None and _recovery_action(device, "after") is None:
        raise NotRead("the driver's recovery action was not read after the load")


def _named(catalogue: XidCatalogue, action: int, moment: str) -> tuple[str, Action]:
    known = catalogue.recovery.get(action)
    wants = "an action unknown to rigproof" if known is None else known.wants
    request = f"{moment} the load the driver wants {wants} (NVML recovery action {action})"
    return request, UNKNOWN_ACTION if known is None else catalogue.actions[known.action]


def _require_listener(device: DeviceEvidence) -> None:
    """No Xid only passes if Xids were received until the end."""
    node = device.device.node
    deaf = device.events("timeout", "gpu_lost")
    # The listener serves all GPUs of its node, and reports its own errors as the rig's.
    waits = device.evidence.events.of("rig", "nvml_error")
    deaf += [event for event in waits if event.data.get("query") == LISTENING]
    deaf += device.evidence.events.of(node, "agent_died", "node_lost")
    deaf = [event for event in deaf if event.worker is None]  # a late worker does not affect the listener
    if deaf:
        first = min(deaf, key=attrgetter("t_s"))
        raise NotMeasured(f"Xids may have been missed from t={first.t_s:.0f} s on: {first.message}")


def _code(event: Event) -> int | None:
    code = event.data.get("xid")
    return code if isinstance(code, int) else None


def xid_outcome(device: DeviceEvidence, event: Event) -> XidOutcome:
    """The outcome of an Xid: by the rig's own lists, else by the catalogue."""
    fail, warn = (device.stated(key)[0] or () for key in (XID_FAIL, XID_WARN))
    return device.evidence.loaded.xids.outcome(_code(event), fail=fail, warn=warn)


def _root(events: Sequence[Event]) -> Event:
    """The first that does not merely follow another; the first of all if each does."""
    return next((event for event in events if _code(event) not in FOLLOWS_ANOTHER), events[0])


def _listed(device: DeviceEvidence, events: Sequence[Event]) -> list[str]:
    """Each Xid once, in the order given, with its meaning."""
    catalogue = device.evidence.loaded.xids
    seen: dict[int | None, str] = {}
    for event in events:
        code = _code(event)
        kind = " (usually a program's own error)" if xid_outcome(device, event) == "program" else ""
        meaning = event.message if code is None else catalogue.meaning(code)
        at = "" if f"{event.t_s:.0f}" == f"{events[0].t_s:.0f}" else f" at t={event.t_s:.0f} s"
        seen.setdefault(code, f"Xid {code}{kind}{at}: {meaning}")
    return list(seen.values())


FAULTS = (
    FaultKind(
        "xid",
        "the driver reports an Xid; code= is its number",
        ("health.xid",),
        keys=(*FROM, "code"),
        defaults={**MID, "code": "48"},
        duties=DEVICE_DUTIES,
    ),
    FaultKind(
        "recovery-wanted",
        "the driver requests a reset of the card without an Xid; to= is another NVML recovery action",
        ("health.xid",),
        keys=(*FROM, "to"),
        defaults=MID,
        duties=DEVICE_DUTIES,
    ),
)
