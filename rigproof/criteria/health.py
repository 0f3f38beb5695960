"""What the driver itself reports as gone wrong."""

from collections.abc import Sequence
from operator import attrgetter

from rigproof.criteria.criterion import Finding, Limit, NotApplicable, NotMeasured, compared, criterion
from rigproof.criteria.strangers import crashed_by
from rigproof.criteria.subjects import DeviceEvidence
from rigproof.records.measurements import Event
from rigproof.records.verdict import Outcome

# What a program's own mistake leaves in the driver's log (NVIDIA's Xid catalogue): an engine exception,
# an MMU fault, a stopped channel, a removed channel.
OWN_ERROR = (13, 31, 43, 45)
LISTENING = "nvmlEventSetWait_v2"  # the query that Xids come by
FOLLOWS_ANOTHER = (43, 45)  # work that stopped because of an earlier fault


@criterion(
    "health.xid",
    scope="device",
    unit="Xids",
    limit="`limits.xid_fail` fails; `limits.xid_warn` and every other Xid warns",
    remedy="look the Xid up in NVIDIA's Xid catalogue; 79 means that the card fell off the bus: check "
    "seat, riser and power",
    unmeasured="nobody listened for a while: the node or its agent died, an NVML call failed or hung, or the "
    "GPU was lost; not required where the driver delivers none",
    faults=("xid", "gpu-lost"),
    applies_to_cpu=False,
    stages=("sustained",),
    explained=crashed_by,
)
def xid(device: DeviceEvidence) -> Finding:
    """The driver reports no Xid for this GPU. The root Xid is named first, not those that follow from it."""
    events = device.events("xid")
    fails = device.device.limits.xid_fail
    warns = device.device.limits.xid_warn
    if fails is None or warns is None:
        raise NotMeasured("the profile has no limits.xid_fail and limits.xid_warn")
    none = Limit(0, device.source_of("limits.xid_fail"))
    fatal = [event for event in events if _code(event) in fails]
    if not fatal:
        _require_listener(device)
    if not events:
        if not device.identity.xid_supported:
            raise NotApplicable("the driver delivers no Xid events here")
        return compared(0, none, good=True)
    root = _root(events)
    detail = _listed([fatal[0], root, *events] if fatal else [root, *events])
    if fatal:
        return compared(len(events), none, good=False, detail=detail, from_s=fatal[0].t_s)
    own = all(_code(event) in OWN_ERROR for event in events)
    remedy = (
        "this is the program's own error, not the card's: look for an illegal access in what ran"
        if own
        else ""
    )
    return Finding(Outcome.WARN, len(events), none, detail, remedy, from_s=root.t_s)


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


def _root(events: Sequence[Event]) -> Event:
    """The first that does not merely follow another; the first of all where each does."""
    return next((event for event in events if _code(event) not in FOLLOWS_ANOTHER), events[0])


def _listed(events: Sequence[Event]) -> str:
    """Each Xid once, in the order given."""
    seen: dict[int | None, str] = {}
    for event in events:
        kind = " (the program's own error)" if _code(event) in OWN_ERROR else ""
        seen.setdefault(_code(event), f"Xid {_code(event)}{kind} at t={event.t_s:.0f} s: {event.message}")
    return "; ".join(seen.values())
