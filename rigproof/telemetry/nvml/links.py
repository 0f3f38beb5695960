"""NVLinks: the state of each, its error counters, and the fabric that a host's NVSwitches form."""

from collections.abc import Sequence
from typing import Any

from rigproof.telemetry.nvml.library import Gpu
from rigproof.telemetry.nvml.protocol import FabricState, Field, LinkError

MOST_LINKS = 36  # NVML_NVLINK_MAX_LINKS
Counts = tuple[int | None, ...]  # by link; None: not counted, or the link is not active


def read_nvlinks(gpu: Gpu) -> dict[str, Any]:
    """The state and errors of each NVLink, by the names of GpuCounters.

    Empty if the GPU has none, or none is offered to this host.
    """
    stated = gpu.fields([Field.NVLINK_COUNT])[Field.NVLINK_COUNT]
    active: list[bool | None] = []
    for link in range(MOST_LINKS if stated is None else int(stated)):
        state = gpu.number("nvmlDeviceGetNvLinkState", link)
        if state is None and stated is None:
            break  # behind its last link
        active.append(None if state is None else bool(state))
    if all(state is None for state in active):
        return {}
    links = [link for link, state in enumerate(active) if state]

    def counts(field: Field, *errors: LinkError) -> Counts | None:
        return _spread(len(active), links, _errors(gpu, links, field, errors)) if links else None

    recoveries = counts(Field.NVLINK_RECOVERIES, LinkError.RECOVERY)
    if recoveries is None and links:  # NVLink 5 has this counter in the place of all others
        found = gpu.scoped(Field.NVLINK5_RECOVERIES, links)
        recoveries = _spread(len(active), links, found)
    return {
        "nvlinks": tuple(active),
        "nvlink_replays": counts(Field.NVLINK_REPLAYS, LinkError.REPLAY),
        "nvlink_recoveries": recoveries,
        "nvlink_crc_errors": counts(Field.NVLINK_CRC_ERRORS, LinkError.CRC_FLIT, LinkError.CRC_DATA),
    }


def _errors(gpu: Gpu, links: Sequence[int], field: Field, errors: Sequence[LinkError]) -> list[int | None]:
    """An error counter of each link: all by one call, or link by link where the driver lacks the field."""
    found = gpu.scoped(field, links)
    if any(value is not None for value in found):
        return found
    by_error = [
        [gpu.number("nvmlDeviceGetNvLinkErrorCounter", link, error) for link in links] for error in errors
    ]
    return [None if None in several else sum(map(int, several)) for several in zip(*by_error, strict=True)]


def _spread(number: int, links: Sequence[int], values: Sequence[int | None]) -> Counts | None:
    """The values by link number; None if no link has one."""
    by_link = dict(zip(links, values, strict=True))
    spread = tuple(by_link.get(link) for link in range(number))
    return spread if any(value is not None for value in spread) else None


def read_fabric(gpu: Gpu) -> dict[str, Any]:
    """The GPU's place in the NVLink fabric, by the names of GpuCounters; empty if it knows none."""
    info: Any = gpu.filled("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfoV_t")
    if info is None:
        return {}
    name = next((one.name.lower() for one in FabricState if one == info.state), f"unknown ({info.state})")
    return {"fabric_state": name, "fabric_status": int(info.status), "fabric_health": int(info.healthMask)}
