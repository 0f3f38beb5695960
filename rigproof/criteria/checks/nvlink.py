"""Are the card's NVLinks there, and do they carry data without errors?"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from rigproof.criteria.criterion import (
    Criterion,
    Finding,
    Limit,
    NotApplicable,
    NotMeasured,
    NotRead,
    gravest,
    pass_or_fail,
)
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.profiles.kinds.stages import DUTIES
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.tables.limits import LIMITS
from rigproof.records.measurements import GpuCounters
from rigproof.records.verdict import Outcome
from rigproof.simulation.faults.kinds import FROM, MID, FaultKind

NVLINKS = LIMITS.key(lambda limits: limits.nvlinks)
NVLINK_REPLAYS = LIMITS.key(lambda limits: limits.nvlink_replays)
NVLINK_CRC_PER_S = LIMITS.key(lambda limits: limits.nvlink_crc_per_s)

Links = Sequence[bool | None]
VIRTUAL = ("passthrough", "vgpu")  # GpuIdentity.virtualization in a virtual machine
SHOWN = 4  # links that a sentence names
FEWER_HERE = (
    "write `limits.nvlinks = {}` if this virtual machine is meant to have no more; else ask its provider"
)
RESET = "reset all GPUs on that link (`nvidia-smi -r`); if it recurs, check the bridge or the baseboard"
WATCH = "watch whether the count keeps growing; then reset all GPUs on that link"
RECOVERED = (("nvlink_replays", "replays"), ("nvlink_recoveries", "recoveries"))
CRC = ("nvlink_crc_errors", "CRC errors")


def _planned(loaded: LoadedRig, device: PromisedDevice) -> Limit | None:
    stated, _ = loaded.stated(NVLINKS, device)
    if stated is None and device.sku is not None:
        stated = device.sku.nvlinks
    return None if stated is None else Limit(stated, "profile")


@Criterion(
    "health.nvlink",
    title="NVLinks",
    unit="links",
    direction="at_least",
    limit="as many active links as the rig states in `limits.nvlinks`, else the SKU file in `nvlinks`; else "
    "as many as an equal card of the node has. `limits.nvlink_replays` replays and recoveries of a link "
    "during the run, `limits.nvlink_crc_per_s` CRC errors; fewer CRC errors warn, and so do links that all "
    "equal cards of a virtual machine lack",
    limits=(NVLINKS, NVLINK_REPLAYS, NVLINK_CRC_PER_S),
    severity="reseat",
    remedy="see `nvidia-smi nvlink -s`; reseat the bridge, or `sudo systemctl restart nvidia-fabricmanager`; "
    "if fewer are meant, state `limits.nvlinks`",
    unmeasured="the links, or a counter of their errors, were read only at one end of the run, or a query of "
    "this GPU failed; not applicable if no link is active, unless the card should have some: its SKU file or "
    "the rig states how many, and there is another card on its node to link to",
    applies_to_cpu=False,
    needs=("continuous",),
    planned=_planned,
)
def nvlink(device: DeviceEvidence) -> Finding:
    """Every NVLink that the card should have is active, before and after the load, and has no errors.

    A card that is alone on its host has nothing to link to: a virtual machine with one GPU has no NVLinks.
    """
    before, after = device.counters("before"), device.counters("after")
    read = [one for one in (before, after) if one is not None]
    links = [one.nvlinks or () for one in read]
    active = min((sum(map(bool, one)) for one in links), default=0)
    limit = _expected(device)
    if not any(map(any, links)):
        _excuse(device, limit)
    if before is None or after is None:
        raise NotRead(f"its NVLinks were not read {'before' if before is None else 'after'} the load")
    if (before.nvlinks is None) is not (after.nvlinks is None):
        raise NotRead("its NVLinks were read only before or only after the load")
    limit = limit or Limit(max(sum(map(bool, one)) for one in links), "the links that were active")
    fewer = _missing(device, links, active, limit) if active < limit.value else None
    if fewer is not None and fewer.outcome is Outcome.FAIL:
        return fewer
    worst = gravest((fewer, _by_errors(device, before, after)))
    return worst or pass_or_fail(active, limit, good=True)


def _expected(device: DeviceEvidence) -> Limit | None:
    """The number of links that should be active; None if nothing says so."""
    stated, sku = device.optional_limit(NVLINKS), device.device.sku
    if stated is not None:
        return stated
    if sku is not None and sku.nvlinks is not None:
        return Limit(sku.nvlinks, device.sku_file)
    most = max(_of_peers(device), default=0)
    return Limit(most, "an equal card of this node") if most else None


def _peers(device: DeviceEvidence) -> list[DeviceEvidence]:
    """The other cards of its model on its node."""
    model = device.device.sku_stem
    return [one for one in device.neighbours if one.device.sku_stem == model and not one.is_cpu]


def _of_peers(device: DeviceEvidence) -> list[int]:
    """The number of active links of each peer whose links are known."""
    read = [one.counters("after") or one.counters("before") for one in _peers(device)]
    return [sum(map(bool, one.nvlinks)) for one in read if one is not None and one.nvlinks is not None]


def _excuse(device: DeviceEvidence, limit: Limit | None) -> None:
    """Without an active link: NotApplicable unless there should be some; NotMeasured if a query failed."""
    if device.events("nvml_error", "gpu_lost", "timeout") or not device.counters("before"):
        raise NotMeasured("the state of its NVLinks was not read")
    if limit is None:
        raise NotApplicable("this card has no NVLink, or none is connected")
    if device.optional_limit(NVLINKS) is None and not _peers(device):
        raise NotApplicable("no other card of this node has NVLinks")


def _missing(device: DeviceEvidence, links: Sequence[Links], active: int, limit: Limit) -> Finding:
    """Fewer links are active than should be."""
    lost = [number for number, (was, now) in enumerate(zip(*links, strict=False)) if was and not now]
    if lost:
        return pass_or_fail(active, limit, good=False, detail=f"{_named(lost)} went down during the run")
    down = [number for number, state in enumerate(links[-1]) if not state]
    detail = f"{_named(down)} down" if down else "it has no others"
    of_sku = limit.source == device.sku_file
    if of_sku and active and device.identity.virtualization in VIRTUAL and set(_of_peers(device)) == {active}:
        detail += ", as on all equal cards of this virtual machine"
        return Finding(Outcome.WARN, active, limit, detail, FEWER_HERE.format(active), severity="config")
    return pass_or_fail(active, limit, good=False, detail=detail)


def _named(links: Sequence[int]) -> str:
    """`link 3`, `links 3, 4`; many are not all named."""
    names = ", ".join(map(str, links[:SHOWN])) + (", …" if len(links) > SHOWN else "")
    return f"link {names}" if len(links) == 1 else f"links {names}"


@dataclass(frozen=True, slots=True)
class _Worst:
    """The link on which a counter grew most, and by how much."""

    link: int
    grown: int


def _by_errors(device: DeviceEvidence, before: GpuCounters, after: GpuCounters) -> Finding | None:
    """A failure or warning by the links' error counters; None if they are in order."""
    most = device.limit(NVLINK_REPLAYS)
    for field, what in RECOVERED:
        worst = _worst(before, after, field, what)
        if worst is not None and worst.grown > most.value:
            detail = f"{worst.grown} {what} on link {worst.link} during the run"
            return Finding(Outcome.FAIL, detail=detail, remedy=RESET, source=most.source, severity="reset")
    worst = _worst(before, after, *CRC)
    if worst is None or not worst.grown:
        return None
    per_s, limit = worst.grown / max(1.0, after.t_s - before.t_s), device.limit(NVLINK_CRC_PER_S)
    detail = f"{worst.grown} CRC errors on link {worst.link} during the run"
    if per_s >= limit.value:
        return Finding(Outcome.FAIL, detail=detail, remedy=RESET, source=limit.source, severity="reset")
    return Finding(Outcome.WARN, detail=detail, remedy=WATCH, source=limit.source, severity="warn")


def _worst(before: GpuCounters, after: GpuCounters, field: str, what: str) -> _Worst | None:
    """None if the driver does not count them. NotRead if it did so at one end only, or began again."""
    first, last = getattr(before, field), getattr(after, field)
    if first is None and last is None:
        return None
    grown = []
    for link, (was, now) in enumerate(zip(first or (), last or (), strict=False)):
        if (was is None) is not (now is None) or (was is not None and now < was):
            raise NotRead(f"the {what} of link {link} were not counted from before to after the load")
        grown.append(_Worst(link, 0 if was is None else now - was))
    if not grown:
        raise NotRead(f"the {what} of its NVLinks were counted only before or only after the load")
    return max(grown, key=lambda one: one.grown)


def _without_links(_loaded: LoadedRig, device: PromisedDevice) -> str:
    stated = device.sku is not None and device.sku.nvlinks is not None
    return "" if stated else "its SKU file states no nvlinks"


_of_a_link = partial(
    FaultKind, scope="gpu", trips=("health.nvlink",), defaults=MID, duties=DUTIES, lacks=_without_links
)
FAULTS = (
    _of_a_link(
        "nvlink-inactive", what="one NVLink goes down; to= is the number of the link", keys=(*FROM, "to")
    ),
    _of_a_link("nvlink-replays", what="an NVLink repeats packets; to= is how many times", keys=(*FROM, "to")),
    _of_a_link("nvlink-crc", what="some packets of an NVLink arrive damaged", keys=FROM, ends="warns"),
)
