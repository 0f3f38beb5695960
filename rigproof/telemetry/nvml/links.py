"""NVLinks: the state of each, its error counters, and the fabric that a host's NVSwitches form."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from rigproof.telemetry.nvml.device import GpuQueries
from rigproof.telemetry.nvml.protocol import FabricState, Field, LinkError

MOST_LINKS = 36  # NVML_NVLINK_MAX_LINKS
Counts = tuple[int | None, ...]  # by link; None: not counted, or the link is not active


class NvLinks(NamedTuple):
    """A GPU's NVLinks; `active` is by link, None if it could not be read."""

    active: tuple[bool | None, ...] | None
    replays: Counts | None = None
    recoveries: Counts | None = None
    crc_errors: Counts | None = None


class Fabric(NamedTuple):
    """A GPU's place in the fabric: the state by name, an NVML code, and NVML's health mask."""

    state: str | None
    status: int | None = None
    health: int | None = None


def read_nvlinks(queries: GpuQueries) -> NvLinks:
    """The state and errors of each NVLink; all None if the GPU has none, or none is offered to this host."""
    stated = queries.fields([Field.NVLINK_COUNT])[Field.NVLINK_COUNT]
    active: list[bool | None] = []
    for link in range(MOST_LINKS if stated is None else int(stated)):
        state = queries.number("nvmlDeviceGetNvLinkState", link)
        if state is None and stated is None:
            break  # behind its last link
        active.append(None if state is None else bool(state))
    if all(state is None for state in active):
        return NvLinks(None)
    links = [link for link, state in enumerate(active) if state]

    def counts(field: Field, *errors: LinkError) -> Counts | None:
        return _spread(len(active), links, _errors(queries, links, field, errors)) if links else None

    recoveries = counts(Field.NVLINK_RECOVERIES, LinkError.RECOVERY)
    if recoveries is None and links:  # NVLink 5 has this counter in the place of all others
        found = queries.scoped(Field.NVLINK5_RECOVERIES, links)
        recoveries = _spread(len(active), links, found)
    return NvLinks(
        tuple(active),
        replays=counts(Field.NVLINK_REPLAYS, LinkError.REPLAY),
        recoveries=recoveries,
        crc_errors=counts(Field.NVLINK_CRC_ERRORS, LinkError.CRC_FLIT, LinkError.CRC_DATA),
    )


def _errors(
    queries: GpuQueries, links: Sequence[int], field: Field, errors: Sequence[LinkError]
) -> list[int | None]:
    """An error counter of each link: all by one call, or link by link where the driver lacks the field."""
    found = queries.scoped(field, links)
    if any(value is not None for value in found):
        return found
    by_error = [
        [queries.number("nvmlDeviceGetNvLinkErrorCounter", link, error) for link in links] for error in errors
    ]
    return [None if None in several else sum(map(int, several)) for several in zip(*by_error, strict=True)]


def _spread(number: int, links: Sequence[int], values: Sequence[int | None]) -> Counts | None:
    """The values by link number; None if no link has one."""
    by_link = dict(zip(links, values, strict=True))
    spread = tuple(by_link.get(link) for link in range(number))
    return spread if any(value is not None for value in spread) else None


def read_fabric(queries: GpuQueries) -> Fabric:
    """The GPU's place in the NVLink fabric; all None if the driver or the GPU knows none."""
    info: Any = queries.filled("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfoV_t")
    if info is None:
        return Fabric(None)
    name = next((one.name.lower() for one in FabricState if one == info.state), f"unknown ({info.state})")
    return Fabric(name, int(info.status), int(info.healthMask))
