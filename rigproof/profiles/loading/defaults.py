"""The files below every rig, hwprofiles/defaults.toml and its like: which of them, and what they hold."""

from collections.abc import Mapping
from typing import Any

from rigproof.profiles.loading.files import CPU_DEFAULTS, DEFAULTS, profile_folder, read_toml
from rigproof.profiles.loading.merge import Layer


def default_layers(*, cpus_alone: bool) -> list[Layer]:
    """The defaults of a rig, the lowest file first. Raises ProfileError."""
    files = (DEFAULTS, CPU_DEFAULTS) if cpus_alone else (DEFAULTS,)
    return [(file, read_toml(profile_folder().parent / file)) for file in files]


def of_cpus_alone(rig: Mapping[str, Any]) -> bool:
    """Whether a rig has devices, and all of them are CPUs, by its raw tables, valid or not."""
    devices = [gpu for node in _tables(rig, "nodes") for gpu in _tables(node, "gpus")]
    return bool(devices) and all(gpu.get("device") == "cpu" for gpu in devices)


def _tables(table: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """The tables of a list of tables; empty if there is none."""
    found = table.get(key)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list | tuple) else []
