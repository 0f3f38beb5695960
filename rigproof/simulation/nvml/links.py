"""NVML's functions for NVLinks and the fabric that they form."""

from collections.abc import Mapping
from typing import Any

from rigproof.simulation.nvml.abi import answers, write, write_bus, write_struct
from rigproof.simulation.nvml.model import ON_DEVICE, SimulatedDriver, SimulatedGpu, SimulatedLink
from rigproof.telemetry.nvml.protocol import Code, Field, LinkEnd, LinkError

# Field id to the counter of the link in `scopeId`.
LINK_FIELDS: Mapping[int, str] = {
    Field.NVLINK_REPLAYS: "replays",
    Field.NVLINK_RECOVERIES: "recoveries",
    Field.NVLINK_CRC_ERRORS: "crc_errors",
}
BY_ERROR = {
    LinkError.REPLAY: "replays",
    LinkError.RECOVERY: "recoveries",
    LinkError.CRC_FLIT: "crc_errors",
    LinkError.CRC_DATA: None,  # the model has one counter for both
}


def link_counter(gpu: SimulatedGpu, number: int, counter: str) -> int | None:
    """A counter of a link; None if the GPU does not have it."""
    link = _link(gpu, number)
    return None if link is None else getattr(link, counter)


def _link(gpu: SimulatedGpu, number: int) -> SimulatedLink | None:
    links = gpu.nvlinks or []
    return links[number] if 0 <= number < len(links) else None


@answers(ON_DEVICE, "nvmlDeviceGetNvLinkState")
def _state(_driver: SimulatedDriver, gpu: SimulatedGpu, number: int, out: Any) -> int:
    if gpu.nvlinks is None:
        return Code.NOT_SUPPORTED
    link = _link(gpu, number)
    return Code.INVALID_ARGUMENT if link is None else write(out, link.active)


@answers(ON_DEVICE, "nvmlDeviceGetNvLinkRemoteDeviceType")
def _end(_driver: SimulatedDriver, gpu: SimulatedGpu, number: int, out: Any) -> int:
    link = _link(gpu, number)
    if link is None:
        return Code.INVALID_ARGUMENT
    return write(out, None if link.leads_to is None else LinkEnd.GPU if link.leads_to else LinkEnd.SWITCH)


@answers(ON_DEVICE, "nvmlDeviceGetNvLinkRemotePciInfo_v2")
def _remote(_driver: SimulatedDriver, gpu: SimulatedGpu, number: int, out: Any) -> int:
    link = _link(gpu, number)
    return Code.NOT_SUPPORTED if link is None or not link.leads_to else write_bus(out, link.leads_to)


@answers(ON_DEVICE, "nvmlDeviceGetTopologyCommonAncestor")
def _nearest(_driver: SimulatedDriver, gpu: SimulatedGpu, _other: Any, out: Any) -> int:
    return write(out, gpu.nearest)


@answers(ON_DEVICE, "nvmlDeviceGetP2PStatus")
def _p2p(_driver: SimulatedDriver, gpu: SimulatedGpu, _other: Any, _what: int, out: Any) -> int:
    return write(out, gpu.p2p_status)


@answers(ON_DEVICE, "nvmlDeviceGetNvLinkErrorCounter")
def _errors(_driver: SimulatedDriver, gpu: SimulatedGpu, number: int, error: int, out: Any) -> int:
    if error not in BY_ERROR:
        return Code.INVALID_ARGUMENT
    counter = BY_ERROR[LinkError(error)]
    return write(out, 0 if counter is None else link_counter(gpu, number, counter))


@answers(ON_DEVICE, "nvmlDeviceGetGpuFabricInfoV")
def _fabric(_driver: SimulatedDriver, gpu: SimulatedGpu, out: Any) -> int:
    return write_struct(out, state=gpu.fabric_state, status=gpu.fabric_status, healthMask=gpu.fabric_health)
