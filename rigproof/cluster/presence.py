"""Which promised GPUs are there, and what is told of nodes and GPUs that are not. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rigproof.cluster.commands import head_of, ray_start_line
from rigproof.cluster.matching import assign_gpus
from rigproof.cluster.messages import AgentFacts
from rigproof.profiles.checks import UNKNOWN_SKU
from rigproof.profiles.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.models import Node
from rigproof.records.identity import GpuIdentity
from rigproof.records.measurements import Event


def missing_node(loaded: LoadedRig, node: Node, ray_address: str | None, t_s: float) -> list[Event]:
    """The node's event and one for each of its devices, with the line to type there."""
    nodes = loaded.rig.nodes
    head = ray_address
    if head is None and node.name != nodes[0].name:
        head = head_of(nodes)
    line = ray_start_line(node, head)
    message = f"{node.name} is not in the cluster; type on {node.name}: {line}"
    if ray_address is None:
        message += f" (then give --ray-address={head_of(nodes)})"
    data: dict[str, Any] = {"remedy": line, "address": node.address}
    events = [Event(t_s, "node_missing", node.name, message, data=data)]
    for device in loaded.devices():
        if device.node == node.name:
            message = f"{_name(device)} is missing with its node {node.name}; type there: {line}"
            data = {"promised": device.gpu.sku, "found": [], "remedy": line}
            events.append(Event(t_s, "gpu_missing", device.subject, message, data=data))
    return events


def gpus_there(
    loaded: LoadedRig, facts: Mapping[str, AgentFacts], sku_of: Callable[[str], str | None], t_s: float
) -> tuple[dict[str, GpuIdentity], list[Event]]:
    """Promised subject to the GPU that it is, on the nodes that have `facts`; an event for each missing one.

    `sku_of` gives NVML's name of a device its SKU's file stem.
    """
    gpus: dict[str, GpuIdentity] = {}
    events = []
    for node, found in facts.items():
        promised = [
            device for device in loaded.devices() if device.node == node and device.gpu.device == "cuda"
        ]
        gpus |= assign_gpus(promised, found.gpus, sku_of)
        missing = [device for device in promised if device.subject not in gpus]
        events += [missing_gpu(device, found.gpus, found.nvml_error, t_s) for device in missing]
    return gpus, events


def missing_gpu(
    device: PromisedDevice, there: Sequence[GpuIdentity], nvml_error: str | None, t_s: float
) -> Event:
    """A promised GPU that its node does not have; `there` are those that it has."""
    names = [f"{gpu.name} ({gpu.uuid})" for gpu in there]
    instead = f"found there: {', '.join(names)}" if names else nvml_error or "no GPU is there"
    message = f"{_name(device)} is not on {device.node}; {instead}"
    data = {"promised": device.gpu.uuid or device.gpu.sku, "found": names}
    return Event(t_s, "gpu_missing", device.subject, message, data=data)


def _name(device: PromisedDevice) -> str:
    """The promised device in a sentence."""
    if device.gpu.device == "cpu":
        return "the CPU as the device"
    if device.gpu.uuid is None and device.gpu.sku == UNKNOWN_SKU:
        return "a GPU"
    return device.gpu.uuid or device.gpu.sku
