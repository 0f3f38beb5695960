"""The lengths of the levels themselves, which no rig and no option changes."""

from functools import cache

from rigproof.profiles.loading.files import profile_folder, read_toml
from rigproof.profiles.tables.models import Levels, Rig


@cache
def own_levels() -> Levels:
    """As hwprofiles/defaults.toml states them: what a run's level promises. Raises ProfileError."""
    return Rig.model_validate(read_toml(profile_folder() / "defaults.toml")).levels
