"""A loaded rig as TOML to save and edit."""

from typing import Any

from rigproof.profiles.loading.files import profile_folder
from rigproof.profiles.loading.loaded import LoadedRig, left_out_text

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
