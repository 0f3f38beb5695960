"""Refuses rigs that change what a level promises: that is the same for every rig."""

from rigproof.profiles.lint.limits import rig_problem
from rigproof.profiles.loading.loaded import LoadedRig

OWN_KEYS = ("least_share", "least_work_share")


def level_problems(loaded: LoadedRig) -> list[str]:
    """Problems of a rig that states how much of a level must be done: only the defaults' values are used."""
    return [
        rig_problem(loaded, key, getattr(loaded.rig.levels, name), "not a setting of a rig", "drop it")
        for name in OWN_KEYS
        if loaded.states(key := f"levels.{name}")
    ]
