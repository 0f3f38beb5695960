"""What a level promises is the same for every rig."""

from rigproof.profiles.lint.limits import told
from rigproof.profiles.loading.files import DEFAULTS
from rigproof.profiles.loading.loaded import LoadedRig

OWN_KEYS = ("least_share", "least_work_share")


def level_problems(loaded: LoadedRig) -> list[str]:
    """A rig that says how much of a level is that level: it would not be heeded."""
    return [
        told(loaded, key, getattr(loaded.rig.levels, name), "not for a rig to say", "drop it")
        for name in OWN_KEYS
        if loaded.sources.get(key := f"levels.{name}", DEFAULTS) != DEFAULTS
    ]
