"""What a level promises is the same for every rig."""

from rigproof.profiles.lint.limits import rig_problem
from rigproof.profiles.loading.files import DEFAULTS
from rigproof.profiles.loading.loaded import LoadedRig

OWN_KEYS = ("least_share", "least_work_share")


def level_problems(loaded: LoadedRig) -> list[str]:
    """A rig that states which part of a level still counts as that level: it would have no effect."""
    return [
        rig_problem(loaded, key, getattr(loaded.rig.levels, name), "not a setting of a rig", "drop it")
        for name in OWN_KEYS
        if loaded.sources.get(key := f"levels.{name}", DEFAULTS) != DEFAULTS
    ]
