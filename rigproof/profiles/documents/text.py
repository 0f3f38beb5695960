"""A loaded rig for its reader: as TOML to save and edit, and in a few lines to check it by."""

import re
from collections.abc import Iterator
from typing import Any

from rigproof.profiles.errors import shown
from rigproof.profiles.loading.files import profile_folder
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice, left_out_text
from rigproof.profiles.loading.merge import merge
from rigproof.profiles.loading.structure import UNKNOWN_SKU
from rigproof.profiles.planning.planning import MIB_PER_GIB, device_plan
from rigproof.profiles.tables.node import Node

_HEAD = (
    "Save this as {name}.toml, and name it with its path: --hwprofile ./{name}.toml",
    "What is left out here comes from hwprofiles/defaults.toml; docs/profile-keys.md lists every key.",
)
_NODE = "A single node without an address is the machine that the suite runs on."
_CPU_FLOORS = (
    "A floor of your own takes precedence, for example:",
    "[nodes.gpus.floors]",
    "gemm_fp32_tflops = 0.05",
)
_FLOORS = (
    "Floors and limits of your own take precedence, for example:",
    "[nodes.gpus.floors]",
    "gemm_bf16_tflops = 60",
    "[nodes.gpus.limits]",
    "core_temperature_c = 80",
)
_COMMENTS = {
    "sku": "a file in hwprofiles/gpus; \"unknown\": NVML's limits and the architecture's floors apply",
    "memory_gib": "memory of the card, as found",
    "vram_share": "share of the card's memory that all its workers fill together",
    "vram_gib_per_worker": "memory that each worker fills, in place of vram_share",
    "gemm_size": "size of the square matrices (M = N = K)",
    "cpus": "CPUs that this machine may use, as found",
    "ram_gib": "RAM of this machine, as found",
    "device": "no NVIDIA GPU was found: the CPU is judged instead",
}


def profile_text(loaded: LoadedRig) -> str:
    """TOML that `load_rig` reads back to the same plan: everything that is not a default, with comments."""
    import tomlkit  # noqa: PLC0415 - `pytest --hw-plan` does not need it

    document = tomlkit.document()
    schema = profile_folder() / "schema" / "rig.schema.json"
    document.add(tomlkit.comment(f":schema {schema.as_uri()}"))  # for editors, wherever the file is saved
    document["name"] = loaded.rig.name
    for line in _HEAD:
        document.add(tomlkit.comment(line.format(name=loaded.rig.name)))
    if loaded.left_out:
        document.add(tomlkit.comment(f"Not in this rig: {left_out_text(loaded.left_out)}."))
    for key, value in _own_values(loaded).items():
        document[key] = value
    nodes = tomlkit.aot()
    for node in loaded.rig.model_dump(mode="json", exclude_none=True, exclude_defaults=True)["nodes"]:
        nodes.append(_node(node))
    document["nodes"] = nodes
    text = tomlkit.dumps(document).replace("# :schema", "#:schema", 1)
    has_gpu = any(device.gpu.device == "cuda" for device in loaded.devices())
    tail = "".join(f"# {line}\n" for line in (_FLOORS if has_gpu else _CPU_FLOORS))
    return f"{text.rstrip()}\n\n{tail}"


def _own_values(loaded: LoadedRig) -> dict[str, Any]:
    """The rig's tables without the defaults' values, plain values first."""
    tables = loaded.rig.model_dump(mode="json", exclude_none=True, exclude={"name", "nodes", "extends"})
    own = _not_default(tables, "", loaded)
    return dict(sorted(own.items(), key=lambda item: isinstance(item[1], dict)))


def _not_default(table: dict[str, Any], prefix: str, loaded: LoadedRig) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            inner = _not_default(value, f"{prefix}{key}.", loaded)
            if inner:
                kept[key] = inner
        elif loaded.states(f"{prefix}{key}"):
            kept[key] = value
    return kept


def _node(node: dict[str, Any]) -> Any:
    import tomlkit  # noqa: PLC0415

    table = _commented({key: value for key, value in node.items() if key != "gpus"})
    if "address" not in node:
        table.add(tomlkit.comment(_NODE))
    gpus = tomlkit.aot()
    for gpu in node.get("gpus", ()):
        gpus.append(_commented(gpu))
    if gpus:
        table["gpus"] = gpus
    return table


def _commented(values: dict[str, Any]) -> Any:
    import tomlkit  # noqa: PLC0415

    table = tomlkit.table()
    for key, value in sorted(values.items(), key=lambda item: isinstance(item[1], dict)):
        table[key] = value
        if key in _COMMENTS and not isinstance(value, dict):
            table[key].comment(_COMMENTS[key])
    return table


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
