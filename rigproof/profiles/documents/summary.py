"""What a rig is, in a few lines, as a person who wrote its profile can check it."""

import re
from collections.abc import Iterator

from rigproof.profiles.errors import shown
from rigproof.profiles.loading.checks import UNKNOWN_SKU
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.loading.merge import merge
from rigproof.profiles.planning.planning import MIB_PER_GIB, device_plan
from rigproof.profiles.tables.node import Node

NO_FIGURES = "no figures known for this card: judged by NVML's limits and its architecture's floors"
IN_OTHER_LINES = re.compile(r"(name|description|extends|nodes|\w+\.\d+)\b")  # or within a list that is shown
OF_NODES = ("address", "cpus", "ram_gib", "psu_w", "gpus")  # named with the file that they are inherited from


def summary_lines(loaded: LoadedRig) -> Iterator[str]:
    """The rig's nodes with addresses, CPUs and cards, then what each of its files states beside them."""
    yield f"{loaded.rig.name} ({loaded.file}): {_count(len(loaded.rig.nodes), 'machine')}"
    for node in loaded.rig.nodes:
        yield f"  {node.name}: {_where(loaded, node)}, {_cpus(loaded, node)}"
        yield from (f"    {_card(loaded, one)}" for one in loaded.devices() if one.node == node.name)
    yield from _stated(loaded)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _where(loaded: LoadedRig, node: Node) -> str:
    if node.address is not None:
        return node.address
    return "this machine" if loaded.this_machine() else "no address, so it is known by its name"


def _cpus(loaded: LoadedRig, node: Node) -> str:
    if node.cpus is not None:
        return f"{node.cpus:g} CPU{'' if node.cpus == 1 else 's'}"
    return "CPUs as found" if loaded.this_machine() else "CPUs not stated"


def _card(loaded: LoadedRig, device: PromisedDevice) -> str:
    plan = device_plan(loaded, device)
    memory = ""
    if plan.memory_gib is not None and plan.vram_mib is not None:
        fills = plan.workers * plan.vram_mib / MIB_PER_GIB
        memory = f"; {_count(plan.workers, 'worker')} fill{'s' if plan.workers == 1 else ''} {fills:.3g} of "
        memory += f"{plan.memory_gib:g} GiB"
    return f"{device.subject}: {_model(loaded, device)}{memory}, matrices of {plan.gemm_size}"


def _model(loaded: LoadedRig, device: PromisedDevice) -> str:
    if device.gpu.device == "cpu":
        return "the CPU as the device"
    if device.sku is not None:
        return f"{device.sku.name} (hwprofiles/gpus/{device.sku_stem}.toml)"
    if loaded.this_machine() and not loaded.states(f"{device.key}.memory_gib"):
        return f"{UNKNOWN_SKU}: whatever card is found in its place"
    return f"{UNKNOWN_SKU}: {NO_FIGURES}"


def _stated(loaded: LoadedRig) -> Iterator[str]:
    """A line for each of the rig's own files, with those of its values that hold."""
    merged = merge(loaded.layers)
    for file, _ in reversed(loaded.layers):
        keys = [key for key, origin in merged.origins.items() if origin.file == file]
        values = [f"{key} = {shown(merged.value(key))}" for key in keys if not IN_OTHER_LINES.match(key)]
        inherits = file != loaded.layers[-1][0]
        if inherits:
            for node in loaded.rig.nodes:
                own = [part for part in OF_NODES if f"nodes.{node.name}.{part}" in keys]
                values += [f"{' and '.join(own)} of {node.name}"] if own else []
        if values:
            yield f"  {'inherited from' if inherits else 'stated in'} {file}: {', '.join(values)}"
