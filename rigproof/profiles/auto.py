"""Makes a rig from the hardware that was found: all of it, or only what a profile leaves open."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rigproof.profiles.errors import ProfileError
from rigproof.profiles.kinds.stages import StageKinds
from rigproof.profiles.loading.load import all_skus, default_rig, over_defaults
from rigproof.profiles.loading.loaded import LeftOut, LoadedRig, PromisedDevice
from rigproof.profiles.loading.matching import assign_gpus, sku_of
from rigproof.profiles.loading.structure import UNKNOWN_SKU
from rigproof.profiles.planning.operands import MOST_CONTEXT_GIB, fitting_size, gemm_mib
from rigproof.profiles.planning.planning import MIB_PER_GIB
from rigproof.profiles.tables.node import Node
from rigproof.profiles.tables.rig import Rig
from rigproof.profiles.tables.sku import Sku
from rigproof.records.identity import GpuIdentity, HostInventory

AUTO = "auto"  # stands where a profile's file would be named: the value was found on this machine
UNREPORTED_VRAM_GIB = 1.0  # for a card that does not report its memory: small enough for any
SMALLEST_SHARE = 0.05
NAME_MAX = 64  # characters of a profile's names


@dataclass(frozen=True, slots=True)
class FoundHost:
    """A host that was looked at; `address` is the cluster's for it, None for this machine alone."""

    name: str
    address: str | None
    inventory: HostInventory


def rig_of(inventory: HostInventory, kinds: StageKinds, *, require_gpu: bool = False) -> LoadedRig:
    """The rig of this machine alone, a node without an address (see `rig_of_hosts`)."""
    found = FoundHost(node_name(inventory.hostname), None, inventory)
    return rig_of_hosts([found], kinds, require_gpu=require_gpu)


def rig_of_hosts(hosts: Sequence[FoundHost], kinds: StageKinds, *, require_gpu: bool = False) -> LoadedRig:
    """The rig of these hosts: every NVIDIA GPU found, or where there is none at all, each CPU as a device.

    Hosts without a GPU beside others with one, and GPUs that a setting hides, are `left_out`.
    A GPU whose name is in no SKU file gets the SKU "unknown": it is judged by NVML's limits and by the floors
    of its architecture. With `require_gpu`, the rig of hosts without a GPU promises one of each all the same:
    the run then finds that it is missing, and the rig is rejected.

    Raises:
        ProfileError: a GPU is required, and a setting hides all of them.
    """
    with_gpu = [host for host in hosts if host.inventory.gpus]
    skus, defaults = all_skus(kinds) if with_gpu else {}, default_rig(kinds).rig
    hidden = next((host for host in hosts if host.inventory.all_hidden), None)
    if require_gpu and not with_gpu and hidden is not None:
        setting = hidden.inventory.hidden_by
        raise ProfileError(
            [
                f"{AUTO}: a GPU is required (--hw-require-gpu), and {setting} hides every one of "
                f"{hidden.name}; unset it, or leave out --hw-require-gpu"
            ]
        )
    nodes = []
    for host in with_gpu or hosts:
        own: dict[str, Any] = {"name": host.name, "cpus": float(max(host.inventory.cpus, 0.01))}
        if host.address is not None:
            own["address"] = host.address
        if with_gpu:
            own["gpus"] = [_gpu(found, skus, defaults) for found in host.inventory.gpus]
        elif require_gpu:
            own["gpus"] = [{"sku": UNKNOWN_SKU, **_unreported_memory(defaults.gpu_defaults.gemm_size)}]
        else:
            own["gpus"] = [_cpu_device(host.inventory, defaults)]
            # %: its one thread alone uses more than the band allows
            if defaults.cpu.band_percent[1] * own["cpus"] < 100:
                own["cpu"] = {"enabled": False}
        if host.inventory.ram_gib > 0:
            own["ram_gib"] = _ram_gib(host.inventory)
        nodes.append(own)
    table = {
        "name": _rig_name([node["name"] for node in nodes]),
        "description": _description(nodes, with_gpu, require_gpu=require_gpu),
        "nodes": nodes,
    }
    left_out = tuple(
        LeftOut(host.name, what)
        for host in hosts
        if (what := _not_taken(host.inventory, beside_gpus=bool(with_gpu)))
    )
    return dataclasses.replace(over_defaults(table, AUTO, kinds), left_out=left_out)


def completed(loaded: LoadedRig, inventory: HostInventory) -> LoadedRig:
    """`loaded`, with the values that its profile leaves open filled in from this machine.

    Only a rig of a single node without an address is this machine; every other rig is returned unchanged. The
    node gets this host's CPUs and RAM if it states none. Each GPU of SKU "unknown" gets the SKU and the
    memory of the card in its place. What the profile states stays. `sources` says "auto" for each value that
    was found. A GPU that is not there gets a plan that any card could hold, so that the run can begin and its
    verdict can name the missing GPU.
    """
    node = loaded.this_machine()
    if node is None:
        return loaded
    unknown = unknown_gpus(loaded)
    skus = all_skus(loaded.kinds) if unknown else {}
    cuda = [device for device in loaded.devices() if device.gpu.device == "cuda"]
    places = assign_gpus(cuda, inventory.gpus, sku_of(skus))
    host = _host_parts(node, inventory)
    sources = {f"nodes.{node.name}.{key}": AUTO for key in host}
    gpus = []
    for device in loaded.devices():
        parts = _gpu_parts(loaded, device, places.get(device.subject), skus) if device in unknown else {}
        gpus.append(device.gpu.model_copy(update=parts))
        sources |= {f"{device.key}.{key}": AUTO for key in parts}
    own = node.model_copy(update={**host, "gpus": tuple(gpus)})
    return dataclasses.replace(
        loaded,
        rig=loaded.rig.model_copy(update={"nodes": (own,)}),
        skus=loaded.skus | {gpu.sku: skus[gpu.sku] for gpu in gpus if gpu.sku in skus},
        sources=loaded.sources | sources,
    )


def named_node(loaded: LoadedRig, name: str) -> LoadedRig:
    """The rig of one node with another name for that node."""
    (node,) = loaded.rig.nodes
    old, new = f"nodes.{node.name}.", f"nodes.{name}."

    def renamed(by_key: Mapping[str, str]) -> dict[str, str]:
        return {new + key[len(old) :] if key.startswith(old) else key: one for key, one in by_key.items()}

    return dataclasses.replace(
        loaded,
        rig=loaded.rig.model_copy(update={"nodes": (node.model_copy(update={"name": name}),)}),
        sources=renamed(loaded.sources),
        written_keys=renamed(loaded.written_keys),
    )


def found_here(loaded: LoadedRig, inventory: HostInventory) -> Mapping[str, GpuIdentity]:
    """The card of this machine for each promised GPU, by subject; empty if the rig is of other machines."""
    if loaded.this_machine() is None:
        return {}
    skus = all_skus(loaded.kinds)
    cuda = [device for device in loaded.devices() if device.gpu.device == "cuda"]
    return assign_gpus(cuda, inventory.gpus, sku_of(skus))


def hidden_here(loaded: LoadedRig, inventory: HostInventory) -> tuple[str, ...]:
    """The promised GPUs, by subject, that this machine has only among the cards that a setting hides."""
    cards = sorted((*inventory.gpus, *inventory.hidden), key=lambda gpu: gpu.index)
    everything = dataclasses.replace(inventory, gpus=tuple(cards))
    with_hidden, without = found_here(loaded, everything), found_here(loaded, inventory)
    return tuple(subject for subject in with_hidden if subject not in without)


def unknown_gpus(loaded: LoadedRig) -> tuple[PromisedDevice, ...]:
    """The promised GPUs that `completed` fills in from this machine's cards; none for other machines."""
    if loaded.this_machine() is None:
        return ()
    devices = loaded.devices()
    return tuple(one for one in devices if one.gpu.device == "cuda" and one.gpu.sku == UNKNOWN_SKU)


def node_name(hostname: str) -> str:
    """A hostname as a profile can hold it: letters, digits, dots, dashes and underscores, 64 at most."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", hostname).lstrip("_.-")[:NAME_MAX] or "host"


def _rig_name(nodes: Sequence[str]) -> str:
    """A name from the nodes': the only one, both of two, or the first and how many more there are."""
    if len(nodes) > 2 or len("-".join(nodes)) > NAME_MAX:
        return f"{nodes[0][: NAME_MAX - 16]}-and-{len(nodes) - 1}-more" if len(nodes) > 1 else nodes[0]
    return "-".join(nodes)


def _description(
    nodes: Sequence[Mapping[str, Any]], with_gpu: Sequence[FoundHost], *, require_gpu: bool
) -> str:
    if with_gpu:
        found = [gpu for host in with_gpu for gpu in host.inventory.gpus]
        return _named(found, [gpu for node in nodes for gpu in node["gpus"]])
    if require_gpu:
        return "A GPU is required here, and none was found."
    if len(nodes) == 1:
        return f"The CPU of this machine ({nodes[0]['cpus']:g} CPUs) as the device."
    return f"The CPUs of these {len(nodes)} machines as the devices."


def _not_taken(inventory: HostInventory, *, beside_gpus: bool) -> str:
    """Hardware that is not in the rig: GPUs that a setting hides, or a host without any; empty if none."""
    if inventory.hidden_by is not None:
        number = len(inventory.hidden)
        total = number + len(inventory.gpus)
        what = f"{number} of {total} GPU{'' if total == 1 else 's'}" if number else "any GPU"
        return f"{what} hidden by {inventory.hidden_by}"
    if inventory.named_by is not None:
        return f"no NVIDIA driver, though {inventory.named_by} names a GPU"
    return "no GPU" if beside_gpus and not inventory.gpus else ""


def _gpu(found: GpuIdentity, skus: dict[str, Sku], defaults: Rig) -> dict[str, Any]:
    sku = sku_of(skus)(found)
    memory_gib = round(found.memory_total_mib / MIB_PER_GIB, 2)
    if memory_gib <= 0 and sku is None:
        return {"sku": UNKNOWN_SKU, **_unreported_memory(defaults.gpu_defaults.gemm_size)}
    table: dict[str, Any] = {"sku": sku or UNKNOWN_SKU}
    if memory_gib > 0:
        table["memory_gib"] = memory_gib
    else:
        memory_gib = skus[sku].memory_gib if sku else 0.0
    share = defaults.gpu_defaults.vram_share
    table["vram_share"] = _fitting_share(share, memory_gib, defaults.limits.headroom_gib, 1)
    table["gemm_size"] = fitting_size(
        defaults.gpu_defaults.gemm_size, table["vram_share"] * memory_gib * MIB_PER_GIB
    )
    return table


def _host_parts(node: Node, inventory: HostInventory) -> dict[str, Any]:
    """The node's keys `cpus` and `ram_gib` as found on this host, without those that the profile states."""
    parts: dict[str, Any] = {}
    if node.cpus is None and inventory.cpus > 0:
        parts["cpus"] = float(inventory.cpus)
    if node.ram_gib is None and inventory.ram_gib > 0:
        parts["ram_gib"] = _ram_gib(inventory)
    return parts


def _gpu_parts(
    loaded: LoadedRig, device: PromisedDevice, found: GpuIdentity | None, skus: Mapping[str, Sku]
) -> dict[str, Any]:
    """The keys that a GPU of SKU "unknown" takes from the card in its place, and a plan that fits this card.

    `found` is that card, or None if there is none.
    """
    parts: dict[str, Any] = {}
    stem = found.sku if found else None
    memory_gib = round(found.memory_total_mib / MIB_PER_GIB, 2) if found else 0.0
    if stem is not None:
        parts["sku"] = stem
        memory_gib = memory_gib if memory_gib > 0 else skus[stem].memory_gib
    if device.gpu.memory_gib is None and memory_gib > 0:
        parts["memory_gib"] = memory_gib
    if device.gpu.memory_gib is not None or device.gpu.vram_gib_per_worker is not None:
        return parts
    return parts | (
        _fitting_plan(loaded, device, memory_gib) if memory_gib > 0 else _any_plan(loaded, device)
    )


def _fitting_plan(loaded: LoadedRig, device: PromisedDevice, memory_gib: float) -> dict[str, Any]:
    """A smaller `vram_share` and `gemm_size`, if those of the defaults file do not fit the card.

    Values that the rig's own profile states stay as they are.
    """
    parts: dict[str, Any] = {}
    share = device.gpu.vram_share or loaded.rig.gpu_defaults.vram_share
    if device.gpu.vram_share is None and not loaded.states("gpu_defaults.vram_share"):
        fitting = _fitting_share(share, memory_gib, device.limits.headroom_gib, device.gpu.workers)
        if fitting < share:
            parts["vram_share"] = share = fitting
    size = device.gpu.gemm_size or loaded.rig.gpu_defaults.gemm_size
    if device.gpu.gemm_size is None and not loaded.states("gpu_defaults.gemm_size"):
        fitting_one = fitting_size(size, share * memory_gib * MIB_PER_GIB / device.gpu.workers)
        if fitting_one < size:
            parts["gemm_size"] = fitting_one
    return parts


def _any_plan(loaded: LoadedRig, device: PromisedDevice) -> dict[str, Any]:
    """The plan of a card that is missing or does not report its memory: small enough for any card.

    If the profile states `gemm_size`, each worker gets enough memory for operands of that size.
    """
    size = device.gpu.gemm_size or loaded.rig.gpu_defaults.gemm_size
    if device.gpu.gemm_size is None and not loaded.states("gpu_defaults.gemm_size"):
        return _unreported_memory(size)
    return {"vram_gib_per_worker": max(UNREPORTED_VRAM_GIB, gemm_mib(size) / MIB_PER_GIB)}


def _fitting_share(share: float, memory_gib: float, headroom_gib: float | None, workers: int) -> float:
    """`share`, or less if the headroom and the workers' CUDA contexts would not fit beside it.

    A smaller share is rounded down to whole percents, and is at least SMALLEST_SHARE.
    """
    free_gib = memory_gib - (headroom_gib or 0.0) - workers * MOST_CONTEXT_GIB
    return min(share, max(SMALLEST_SHARE, int(100 * free_gib / memory_gib) / 100))


def _ram_gib(inventory: HostInventory) -> float:
    return round(inventory.ram_gib, 2) or inventory.ram_gib


def _unreported_memory(size: int) -> dict[str, Any]:
    return {
        "vram_gib_per_worker": UNREPORTED_VRAM_GIB,
        "gemm_size": fitting_size(size, UNREPORTED_VRAM_GIB * MIB_PER_GIB),
    }


def _cpu_device(inventory: HostInventory, defaults: Rig) -> dict[str, Any]:
    size = defaults.gpu_defaults.cpu_gemm_size
    share = defaults.gpu_defaults.cpu_vram_share
    table: dict[str, Any] = {"sku": UNKNOWN_SKU, "device": "cpu"}
    if inventory.ram_gib <= 0:
        return table | _unreported_memory(size) | {"gemm_size": size}
    return table | {"gemm_size": fitting_size(size, share * inventory.ram_gib * MIB_PER_GIB)}


def _named(found: Sequence[GpuIdentity], gpus: Sequence[Mapping[str, Any]]) -> str:
    """The rig's description, such as `Found here: 2 × NVIDIA H200.`; it marks cards without a SKU file."""
    counted: dict[str, int] = {}
    for identity, table in zip(found, gpus, strict=True):
        name = " ".join(re.sub(r"[\x00-\x1f\x7f]|[\ud800-\udfff]", " ", identity.name).split())
        if table["sku"] == UNKNOWN_SKU:
            name += " (no SKU file: NVML's limits, its architecture's floors)"
        counted[name] = counted.get(name, 0) + 1
    return "Found here: " + ", ".join(f"{times} × {name}" for name, times in counted.items()) + "."
