"""Which promised GPUs are there and may be loaded, and the events for the others and for missing nodes."""

import os
import platform
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from importlib import metadata
from typing import Any

from rigproof.cluster.actors.messages import AgentFacts
from rigproof.cluster.launch.commands import head_of, ray_start_line
from rigproof.host.offers import offers
from rigproof.host.proc import boot_id
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.loading.matching import SkuOf, assign_gpus
from rigproof.profiles.loading.structure import UNKNOWN_SKU
from rigproof.profiles.planning.operands import room_of
from rigproof.profiles.planning.plan import Plan
from rigproof.profiles.tables.node import Node
from rigproof.records.identity import GpuIdentity, HostInventory, NodeIdentity
from rigproof.records.measurements import BootReading, Event, ForeignMemory
from rigproof.records.message_text import cause_and_step
from rigproof.records.verdict import FOLLOWS


def missing_node(loaded: LoadedRig, node: Node, ray_address: str | None, t_s: float) -> list[Event]:
    """A missing node's event and one for each of its devices; `data.remedy` is the command to run there.

    `ray_address`: the cluster in which it was looked for. None: the run was given none, which is no fault of
    the rig (`data.disturbed`).
    """
    nodes = loaded.rig.nodes
    head = ray_address
    if head is None and node.name != nodes[0].name:
        head = head_of(nodes)
    line = ray_start_line(node, head)
    message = f"{node.name} is not in the cluster"
    step = way_back(node, head)
    if ray_address is None and len(nodes) == 1:
        message = f"{node.name} is not there: this machine's own Ray has ended, or its address is another one"
        step = "correct the node's address in the profile, or look for what ended Ray in `sudo dmesg`"
    elif ray_address is None:
        message = f"{node.name} is not there: the run was given no cluster, only this machine"
        step = f"join the machines with `rigproof cluster up {shlex.quote(loaded.named)}`"
        step += f", then add --ray-address {shlex.quote(head_of(nodes))} (in pytest --hw-ray-address)"
    disturbed = {"disturbed": step} if ray_address is None else {}
    data: dict[str, Any] = {"remedy": line, "address": node.address, "next_step": step, **disturbed}
    events = [Event(t_s, "node_missing", node.name, message, data=data)]
    for device in loaded.devices():
        if device.node == node.name:
            message = f"{_name(device)} is missing with its node {node.name}"
            step = f"bring its node back first: see cluster.nodes_present of {node.name}"
            data = {"promised": device.gpu.sku, "found": [], "remedy": line, "next_step": step}
            data |= {"disturbed": step} if disturbed else {}
            events.append(Event(t_s, "gpu_missing", device.subject, message, data=data))
    return events


def way_back(node: Node, head: str | None) -> str:
    """The command that brings a node back into the cluster of this head; None for the run's own Ray.

    `rigproof cluster up` starts a whole cluster only: it refuses one of which a part runs.
    """
    if head is None:
        return "look for what ended Ray there in `sudo dmesg`, then run again"
    line = ray_start_line(node, head)
    return f"switch it on, check its cable, type there: `{line}`; or `rigproof cluster down` and `up`"


def without_driver(loaded: LoadedRig, here: HostInventory) -> Node | None:
    """The rig's node, if that is this machine, promises GPUs alone, and has no NVIDIA driver; else None."""
    node = loaded.this_machine()
    cuda = all(device.gpu.device == "cuda" for device in loaded.devices())
    found = here.gpus or here.hidden_by or here.driver_version or here.nvml_error
    return node if cuda and not found else None


def missing_driver(
    loaded: LoadedRig, node: Node, here: HostInventory, clock_offset_s: float, t_s: float
) -> list[NodeIdentity | BootReading | Event]:
    """The identity and boot of this machine, which has no driver, and an event for each of its GPUs."""
    identity = NodeIdentity(
        subject=node.name,
        hostname=here.hostname,
        address="127.0.0.1",
        cpus=here.cpus,
        ram_gib=here.ram_gib,
        os=platform.platform(),
        python_version=platform.python_version(),
        ray_version=metadata.version("ray"),
        torch_version=None,
        driver_version=None,
        nvml_error=None,
        agent_pid=os.getpid(),
        clock_offset_s=clock_offset_s,
        clock_error_s=0.0,
        **asdict(offers()),
    )
    step = f"{FOLLOWS}inventory.driver of {node.name}, see there first"
    events = [
        Event(
            t_s,
            "gpu_missing",
            device.subject,
            f"{_name(device)} cannot be seen on {node.name}: no NVIDIA driver is installed there",
            data={"promised": device.gpu.uuid or device.gpu.sku, "found": [], "next_step": step},
        )
        for device in loaded.devices()
    ]
    booted = boot_id()
    return [identity, BootReading(t_s, node.name, "before", booted.value, booted.reason), *events]


def gpus_there(
    loaded: LoadedRig, facts: Mapping[str, AgentFacts], find_sku: SkuOf, t_s: float
) -> tuple[dict[str, GpuIdentity], list[Event]]:
    """The promised GPUs that are there, by subject, and an event for each one that is missing.

    `facts` are those of the nodes that are there, by name. `find_sku` returns the file stem of a
    card's SKU.
    """
    gpus: dict[str, GpuIdentity] = {}
    events = []
    for node, found in facts.items():
        promised = [
            device for device in loaded.devices() if device.node == node and device.gpu.device == "cuda"
        ]
        gpus |= assign_gpus(promised, found.gpus, find_sku)
        missing = [device for device in promised if device.subject not in gpus]
        events += [missing_gpu(device, found, find_sku, t_s) for device in missing]
    return gpus, events


def missing_gpu(device: PromisedDevice, facts: AgentFacts, find_sku: SkuOf, t_s: float) -> Event:
    """The event of a promised GPU that its node lacks; `data.next_step` if the cause implies a remedy."""
    names = [f"{gpu.name} ({gpu.uuid})" for gpu in facts.gpus]
    message, step = f"{_name(device)} is not on {device.node}; ", ""
    disturbed: dict[str, str] = {}
    hidden = [gpu for gpu in facts.hidden if _could_be(device, gpu, find_sku)]
    if hidden:
        cards = ", ".join(f"{gpu.name} ({gpu.uuid})" for gpu in hidden)
        message = (
            f"{_name(device)} is hidden on {device.node} by CUDA_VISIBLE_DEVICES={facts.visible_devices}, "
            "set where Ray was started"
        )
        if device.gpu.uuid is None:
            message += f"; it leaves out {cards}"
        step = "unset it there, or add the card to it; if it is to stay hidden, take it out of the profile"
        disturbed = {"disturbed": step}
    elif facts.unlisted is not None:
        cause, step = cause_and_step(facts.unlisted)
        message += cause + (f"; found there: {', '.join(names)}" if names else "")
    elif names:
        message += f"found there: {', '.join(names)}"
    elif facts.nvml_error is not None:
        message = f"{_name(device)} cannot be seen on {device.node}: NVML does not answer there"
        step = f"{FOLLOWS}inventory.driver of {device.node}, see there first"
    else:
        message += "no GPU is there"
    data = {"promised": device.gpu.uuid or device.gpu.sku, "found": names, "next_step": step, **disturbed}
    return Event(t_s, "gpu_missing", device.subject, message, data=data)


def skipped(
    gpus: Mapping[str, GpuIdentity], foreign: Mapping[str, ForeignMemory], plan: Plan, t_s: float
) -> dict[str, Event]:
    """A "gpu_skipped" event for each GPU that is not to be loaded. All three mappings are by subject.

    Filling such a card would make other users' allocations fail as well as ours. The limit is that of the
    criterion inventory.foreign_memory (`profiles.planning.operands`): the card's memory less the driver's
    reserve, what its planned workers fill, and their contexts. A card whose use cannot be read is loaded.
    """
    events = {}
    for subject, gpu in gpus.items():
        reading = foreign.get(subject)
        if reading is None or reading.used_mib is None:
            continue
        room = room_of(plan.workers_of(subject), gpu, reading)
        if room.holds(reading.used_mib):
            continue
        message = (
            f"not loaded: {_holders(reading.pids)} {reading.used_mib:.0f} MiB of it, and beside the plan "
            f"{max(0.0, room.free_mib):.0f} MiB are free; see inventory.foreign_memory"
        )
        data = {"used_mib": reading.used_mib, "free_mib": room.free_mib, "pids": reading.pids}
        events[subject] = Event(t_s, "gpu_skipped", subject, message, data=data)
    return events


def _could_be(device: PromisedDevice, gpu: GpuIdentity, find_sku: SkuOf) -> bool:
    """Whether a card could be the promised one, by its UUID or its SKU."""
    if device.gpu.uuid is not None:
        return gpu.uuid == device.gpu.uuid
    return device.gpu.sku in (UNKNOWN_SKU, find_sku(gpu))


def _name(device: PromisedDevice) -> str:
    """A promised device's name in a sentence."""
    if device.gpu.device == "cpu":
        return "the CPU as the device"
    if device.gpu.uuid is None and device.gpu.sku == UNKNOWN_SKU:
        return "a GPU"
    return device.gpu.uuid or device.gpu.sku


def _holders(pids: tuple[int, ...] | None) -> str:
    if not pids:  # not readable, or not named by the driver
        return "others hold"
    if len(pids) == 1:
        return f"the process with pid {pids[0]} holds"
    return f"processes with pids {', '.join(map(str, pids))} hold"
