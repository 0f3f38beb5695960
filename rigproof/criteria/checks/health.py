"""What the driver itself reports as gone wrong."""

from collections.abc import Sequence
from operator import attrgetter

from rigproof.criteria.criterion import Finding, Limit, NotApplicable, NotMeasured, compared, criterion
from rigproof.criteria.effects import Also
from rigproof.criteria.evidence.strangers import crashed_by
from rigproof.criteria.evidence.subjects import DeviceEvidence
from rigproof.profiles.kinds.stages import DUTIES
from rigproof.profiles.loading.xids import FILE, Severity, XidCatalogue
from rigproof.records.measurements import Event
from rigproof.records.verdict import Outcome
from rigproof.simulation.faults.kinds import FROM, MID, FaultKind, Variant

LISTENING = "nvmlEventSetWait_v2"  # the query that Xids come by
FOLLOWS_ANOTHER = (43, 45)  # work that stopped because of an earlier fault
NOTHING_WANTED = 0  # NVML_GPU_RECOVERY_ACTION_NONE
UNKNOWN_ACTION = "look at the GPU recovery action in `nvidia-smi -q`, and do what it says"


@criterion(
    "health.xid",
    scope="device",
    unit="Xids",
    limit="`hwprofiles/xids.toml`, where each Xid has its meaning, severity, action and source: `fail` "
    "fails, all others warn, a number that is in no catalogue too; `limits.xid_fail` and `limits.xid_warn` "
    "come first. A recovery action that NVML reports before or after the load fails, with or without an Xid",
    remedy="what hwprofiles/xids.toml says of the Xid; look one that it does not have up in NVIDIA's Xid "
    "documentation and in `dmesg`",
    unmeasured="nobody listened for a while: the node or its agent died, an NVML call failed or hung, or the "
    "GPU was lost; or the driver told before the load what it wants done with the GPU, and not after it. Not "
    "applicable where the driver delivers no Xids",
    also=Also(
        fails=("ecc-uncorrected", "xid:code=171"),
        warns=("xid:code=63", "xid:code=92", "xid:code=31", "xid:code=999"),
        unmeasured=("node-lost", "reset", "nvml-hang", "stranger-crashes"),
    ),
    applies_to_cpu=False,
    needs=("continuous",),
    explained=crashed_by,
)
def xid(device: DeviceEvidence) -> Finding:
    """The driver reports no Xid for this GPU, and wants nothing done with it: no reset, no restart.

    The root Xid is named first, not those that follow from it.
    """
    events = device.events("xid")
    fatal = [event for event in events if _severity(device, event) == "fail"]
    if fatal:
        return _fatal(device, [fatal[0], _root(events), *events])
    wanted = _wanted(device)
    if wanted is not None:
        said, action = wanted
        detail = "; ".join([said, *_listed(device, events)])
        return Finding(Outcome.FAIL, detail=detail, remedy=action, source="NVML's recovery action")
    _require_listener(device)
    _require_last_word(device)
    none = Limit(0, FILE)
    if not events:
        if not device.identity.xid_supported:
            raise NotApplicable("the driver delivers no Xid events here")
        return compared(0, none, good=True)
    root = _root(events)
    detail = "; ".join(_listed(device, [root, *events]))
    # What is not the program's own says what to do, also where it came later.
    telling = next((event for event in events if _severity(device, event) != "program"), root)
    action = _action(device, _code(telling))
    return Finding(Outcome.WARN, len(events), none, detail, action, from_s=root.t_s)


def _fatal(device: DeviceEvidence, events: Sequence[Event]) -> Finding:
    """A failure for the first of the events, one of which may be there twice."""
    code = _code(events[0])
    stated = code in (device.device.limits.xid_fail or ())
    limit = Limit(0, device.source_of("limits.xid_fail") if stated else FILE)
    number = len({id(event) for event in events})
    detail = "; ".join(_listed(device, events))
    action = _action(device, code)
    return compared(number, limit, good=False, detail=detail, remedy=action, from_s=events[0].t_s)


def _action(device: DeviceEvidence, code: int | None) -> str:
    """What to do about a number; of one that no catalogue has, where it is told."""
    known = device.evidence.loaded.xids.action(code)
    if known or code is None:
        return known
    step = "look it up in NVIDIA's Xid documentation and in `dmesg`"
    return (
        step
        if code in (device.device.limits.xid_fail or ())
        else f"{step}; `limits.xid_fail = [{code}]` makes it fail"
    )


def _wanted(device: DeviceEvidence) -> tuple[str, str] | None:
    """What the driver wants done with the GPU, and how; None where that is nothing, or it does not say."""
    for moment in ("after", "before"):
        action = _recovery_action(device, moment)
        if action is not None and action != NOTHING_WANTED:
            return _named(device.evidence.loaded.xids, action, moment)
    return None


def _recovery_action(device: DeviceEvidence, moment: str) -> int | None:
    counters = device.counters(moment)
    return None if counters is None else counters.recovery_action


def _require_last_word(device: DeviceEvidence) -> None:
    """A driver that told what it wants before the load has to tell it after the load too."""
    if _recovery_action(device, "before") is not None and _recovery_action(device, "after") is None:
        raise NotMeasured("what the driver wants done with the GPU was not read after the load")


def _named(catalogue: XidCatalogue, action: int, moment: str) -> tuple[str, str]:
    known = catalogue.recovery.get(action)
    wants = "something that rigproof does not know" if known is None else known.wants
    said = f"{moment} the load the driver wants {wants} (NVML recovery action {action})"
    return said, UNKNOWN_ACTION if known is None else catalogue.actions[known.action]


def _require_listener(device: DeviceEvidence) -> None:
    """No Xid is good news only where somebody could hear one until the end."""
    node = device.device.node
    deaf = device.events("timeout", "gpu_lost")
    # The listener hears all GPUs of its node, and tells its own errors as the rig's.
    waits = device.evidence.events_of("rig", "nvml_error")
    deaf += [event for event in waits if event.data.get("query") == LISTENING]
    deaf += device.evidence.events_of(node, "agent_died", "node_lost")
    deaf = [event for event in deaf if event.worker is None]  # a worker that is late deafens nobody
    if deaf:
        first = min(deaf, key=attrgetter("t_s"))
        raise NotMeasured(f"an Xid may have gone unheard from t={first.t_s:.0f} s on: {first.message}")


def _code(event: Event) -> int | None:
    code = event.data.get("xid")
    return code if isinstance(code, int) else None


def _severity(device: DeviceEvidence, event: Event) -> Severity:
    return device.evidence.loaded.xids.severity(_code(event), device.device.limits)


def _root(events: Sequence[Event]) -> Event:
    """The first that does not merely follow another; the first of all where each does."""
    return next((event for event in events if _code(event) not in FOLLOWS_ANOTHER), events[0])


def _listed(device: DeviceEvidence, events: Sequence[Event]) -> list[str]:
    """Each Xid once, in the order given, with what it means."""
    catalogue = device.evidence.loaded.xids
    seen: dict[int | None, str] = {}
    for event in events:
        code = _code(event)
        kind = " (mostly a program's own error)" if _severity(device, event) == "program" else ""
        meaning = event.message if code is None else catalogue.meaning(code)
        seen.setdefault(code, f"Xid {code}{kind} at t={event.t_s:.0f} s: {meaning}")
    return list(seen.values())


FAULTS = (
    FaultKind(
        "xid",
        "gpu",
        "the driver reports an Xid; code= says which",
        ("health.xid",),
        keys=(*FROM, "code"),
        defaults={**MID, "code": "48"},
        duties=DUTIES,
        variants=(
            Variant("code=63", "A row that was remapped only warns."),
            Variant("code=171", "An uncorrectable memory error, told beside Xid 48 by newer drivers."),
            Variant("code=92", "NVIDIA says to ignore it."),
            Variant("code=31", "Mostly the program's own error."),
            Variant("code=999", "No catalogue has it."),
        ),
    ),
    FaultKind(
        "recovery-wanted",
        "gpu",
        "the driver wants the card reset, and reports no Xid; to= is another NVML recovery action",
        ("health.xid",),
        keys=(*FROM, "to"),
        defaults=MID,
        duties=DUTIES,
    ),
)
