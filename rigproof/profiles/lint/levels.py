"""Refuses rigs that change what a level promises, and stages that are too short at a level to be judged."""

from collections.abc import Iterator

from rigproof.profiles.lint.limits import rig_problem
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.levels import LevelName
from rigproof.profiles.tables.stages import OptionalSettings

OWN_KEYS = ("least_share", "least_work_share")


def level_problems(loaded: LoadedRig) -> list[str]:
    """Problems of a rig that states how much of a level must be done: only the defaults' values are used."""
    return [
        rig_problem(
            loaded, key, getattr(loaded.rig.levels, name), "not a setting of a rig", "delete this line"
        )
        for name in OWN_KEYS
        if loaded.states(key := f"levels.{name}")
    ]


def length_problems(loaded: LoadedRig, level: LevelName) -> Iterator[str]:
    """Lengths at a level that leave nothing to judge of a GPU. A CPU has no sensors to wait for."""
    if not any(device.gpu.device == "cuda" for device in loaded.devices()):
        return
    for kind in loaded.kinds:
        settings = loaded.settings(kind.settings)
        if not 0 < (length_s := kind.length_s(settings, level)) < kind.shortest_s:
            continue
        wrong = f"too short to judge a GPU's clock, power and rates in the {kind.name} stage"
        way_out = f"write {kind.shortest_s:g} or more" + (
            ", or 0 to leave the stage out" if isinstance(settings, OptionalSettings) else ""
        )
        yield rig_problem(loaded, f"stages.{kind.name}.length_s.{level}", length_s, wrong, way_out)
