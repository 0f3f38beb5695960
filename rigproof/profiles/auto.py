"""The rig as it is found on this machine, where no profile is named."""

import re
from typing import Any, TypeVar

from rigproof.profiles.checks import UNKNOWN_SKU
from rigproof.profiles.errors import ProfileError
from rigproof.profiles.files import profile_folder, read_toml
from rigproof.profiles.load import all_skus, over_defaults
from rigproof.profiles.loaded import LoadedRig
from rigproof.profiles.matching import match_sku
from rigproof.profiles.models import Rig, Sku
from rigproof.profiles.operands import fitting_size
from rigproof.profiles.planning import MIB_PER_GIB
from rigproof.profiles.text import profile_text
from rigproof.records.identity import GpuIdentity
from rigproof.records.inventory import HostInventory

__all__ = ["node_name", "profile_text", "rig_of"]

AUTO = "auto"  # stands where a profile's file would
UNTOLD_VRAM_GIB = 1.0  # for a card that does not tell its memory: little enough for any
SMALLEST_SHARE = 0.05
_Value = TypeVar("_Value")


def rig_of(inventory: HostInventory, *, require_gpu: bool = False) -> LoadedRig:
    """A rig of one node without an address: every NVIDIA GPU found, else the CPU as the device.

    A GPU whose name no SKU file has gets the SKU "unknown": NVML's limits and no floors. With
    `require_gpu`, a host without a GPU promises one all the same, so that it is missed and the rig rejected.
    """
    node = node_name(inventory.hostname)
    defaults = Rig.model_validate(read_toml(profile_folder() / "defaults.toml"))
    cpus = max(inventory.cpus, 0.01)
    if inventory.gpus:
        skus = all_skus()
        gpus = [_gpu(found, skus, defaults) for found in inventory.gpus]
        description = _named(inventory.gpus, gpus)
    elif require_gpu:
        gpus = [{"sku": UNKNOWN_SKU, **_untold_memory(defaults)}]
        description = "A GPU is required here, and none was found."
    else:
        gpus = [_cpu_device(inventory, defaults)]
        description = f"The CPU of this machine ({cpus:g} CPUs) as the device."
    own: dict[str, Any] = {"name": node, "cpus": float(cpus), "gpus": gpus}
    if inventory.ram_gib > 0:
        own["ram_gib"] = round(inventory.ram_gib, 2) or inventory.ram_gib
    return over_defaults({"name": node, "description": description, "nodes": [own]}, AUTO)


def node_name(hostname: str) -> str:
    """A hostname as a profile can hold it: letters, digits, dots, dashes and underscores, 64 at most."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", hostname).lstrip("_.-")[:64] or "host"


def _gpu(found: GpuIdentity, skus: dict[str, Sku], defaults: Rig) -> dict[str, Any]:
    sku = match_sku(found.name, skus)
    memory_gib = round(found.memory_total_mib / MIB_PER_GIB, 2)
    if memory_gib <= 0 and sku is None:
        return {"sku": UNKNOWN_SKU, **_untold_memory(defaults)}
    table: dict[str, Any] = {"sku": sku or UNKNOWN_SKU}
    if memory_gib > 0:
        table["memory_gib"] = memory_gib
    else:
        memory_gib = skus[sku].memory_gib if sku else 0.0
    share = _required(defaults.gpu_defaults.vram_share, "gpu_defaults.vram_share")
    free_gib = memory_gib - (defaults.limits.headroom_gib or 0.0)
    table["vram_share"] = min(share, max(SMALLEST_SHARE, int(100 * free_gib / memory_gib) / 100))
    size = _required(defaults.gpu_defaults.gemm_size, "gpu_defaults.gemm_size")
    table["gemm_size"] = fitting_size(size, table["vram_share"] * memory_gib * MIB_PER_GIB)
    return table


def _untold_memory(defaults: Rig) -> dict[str, Any]:
    size = _required(defaults.gpu_defaults.gemm_size, "gpu_defaults.gemm_size")
    return {
        "vram_gib_per_worker": UNTOLD_VRAM_GIB,
        "gemm_size": fitting_size(size, UNTOLD_VRAM_GIB * MIB_PER_GIB),
    }


def _cpu_device(inventory: HostInventory, defaults: Rig) -> dict[str, Any]:
    size = _required(defaults.gpu_defaults.cpu_gemm_size, "gpu_defaults.cpu_gemm_size")
    share = _required(defaults.gpu_defaults.cpu_vram_share, "gpu_defaults.cpu_vram_share")
    table: dict[str, Any] = {"sku": UNKNOWN_SKU, "device": "cpu"}
    if inventory.ram_gib <= 0:
        return table | _untold_memory(defaults) | {"gemm_size": size}
    return table | {"gemm_size": fitting_size(size, share * inventory.ram_gib * MIB_PER_GIB)}


def _named(found: tuple[GpuIdentity, ...], gpus: list[dict[str, Any]]) -> str:
    """`2 × NVIDIA H200`; a card without a SKU file is called so."""
    counted: dict[str, int] = {}
    for identity, table in zip(found, gpus, strict=True):
        name = " ".join(re.sub(r"[\x00-\x1f\x7f]|[\ud800-\udfff]", " ", identity.name).split())
        if table["sku"] == UNKNOWN_SKU:
            name += " (no SKU file: NVML's limits, no floors)"
        counted[name] = counted.get(name, 0) + 1
    return "Found here: " + ", ".join(f"{times} × {name}" for name, times in counted.items()) + "."


def _required(value: _Value | None, key: str) -> _Value:
    if value is None:
        raise ProfileError([f"hwprofiles/defaults.toml: {key}: missing; write it there again"])
    return value
