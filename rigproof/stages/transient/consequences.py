"""What switching the load on and off may do to a host: each consequence that was seen in the stage."""

from collections.abc import Iterator

from rigproof.criteria.checks.health import xid_outcome
from rigproof.criteria.criterion import Finding, NotApplicable, NotMeasured
from rigproof.criteria.evidence.counters import POWER_BRAKE, THERMAL, THROTTLE, names_of
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.nodes import NodeEvidence
from rigproof.criteria.evidence.windows import Window
from rigproof.records.measurements import Event
from rigproof.records.verdict import Outcome
from rigproof.stages.transient.made import Waves
from rigproof.stages.transient.stage import STAGE

BRAKE = (THROTTLE & ~THERMAL) | POWER_BRAKE  # HW slowdown and power brake
UNDER_WAVES = "nothing may happen to the host or a GPU while the load switches"
SUPPLY = "check the power supply's rating and cables; else lower the power limit (`nvidia-smi -pl`)"
WRONG = "lower the power limit (`nvidia-smi -pl`); if results stay wrong, do not train on this card"


def consequences(waves: Waves, window: Window) -> Iterator[Finding]:
    """Each of them, the gravest first."""
    node = waves.node
    restarted = _restarted(node, window)
    if restarted is not None:
        detail = f"the host restarted under the waves: {restarted.message}"
        yield _failed(detail, restarted.t_s)
    for device in waves.devices:
        for event in _inside(device.events("gpu_lost"), window):
            yield _failed(f"{device.subject} was lost under the waves: {event.message}", event.t_s)
    xids = node.evidence.loaded.xids
    for device in waves.devices:
        for event in _inside(device.events("xid"), window):
            code = event.data.get("xid")
            if isinstance(code, int) and xid_outcome(device, event) == "fail":
                detail = f"{device.subject} reported Xid {code} under the waves: {xids.meaning(code)}"
                action = xids.action(code)
                yield _failed(detail, event.t_s, remedy=action.step if action else "")
    for device in waves.devices:
        for event in device.events("wrong_result"):
            if event.stage == STAGE:
                yield _failed(f"{device.subject}: {event.message}", event.t_s, remedy=WRONG)
    for device in waves.devices:
        yield from _braked(device, window)


def require_seen(waves: Waves, window: Window) -> None:
    """NotMeasured if a consequence could have been missed: agent and sensors must have answered."""
    node = waves.node
    deaf = node.events("agent_died", "node_lost")
    deaf += [event for device in waves.devices for event in device.events("gpu_lost", "timeout")]
    for event in deaf:
        if event.worker is None and event.t_s <= window.to_s:
            raise NotMeasured(f"what happened from t={event.t_s:.0f} s on is not known: {event.message}")
    for device in waves.devices:
        try:
            device.require_readings(window, "clock_event_reasons", "reasons for a lower clock")
        except NotApplicable:  # all else can still be seen
            continue


def _restarted(node: NodeEvidence, window: Window) -> Event | None:
    """The restart in that time: the black box tells of it, or a loss and another boot id after it."""
    for event in node.events("host_reset"):
        if event.data.get("stage") == STAGE or window.from_s <= event.t_s <= window.to_s:
            return event
    ids = [one.boot_id for one in node.evidence.boots(node.subject) if one.boot_id is not None]
    lost = _inside(node.events("node_lost", "agent_died"), window)
    return lost[0] if lost and len(set(ids)) > 1 else None


def _braked(device: DeviceEvidence, window: Window) -> Iterator[Finding]:
    """The first sample of a card with a power brake or HW slowdown."""
    for t_s, value in device.recorded("clock_event_reasons", window):
        if (reasons := int(value)) & BRAKE:
            detail = f"{device.subject} was slowed down under the waves: {names_of(reasons & BRAKE)}"
            yield _failed(detail, t_s)
            return


def _inside(events: list[Event], window: Window) -> list[Event]:
    return [event for event in events if window.from_s <= event.t_s <= window.to_s]


def _failed(detail: str, from_s: float, remedy: str = "") -> Finding:
    return Finding(Outcome.FAIL, detail=detail, remedy=remedy or SUPPLY, source=UNDER_WAVES, from_s=from_s)
