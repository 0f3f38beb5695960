"""Reads hwprofiles/defaults.toml alone: the lengths of the levels, whatever a rig or an option says."""

from functools import cache

from rigproof.profiles.kinds.models import models_of
from rigproof.profiles.kinds.stages import StageKinds
from rigproof.profiles.loading.files import DEFAULTS, profile_folder, read_toml
from rigproof.profiles.loading.loaded import LoadedRig


@cache
def default_rig(kinds: StageKinds) -> LoadedRig:
    """The rig that hwprofiles/defaults.toml describes: every default, and no nodes. Raises ProfileError."""
    tables = read_toml(profile_folder() / "defaults.toml")
    rig = models_of(kinds).rig.model_validate(tables)
    return LoadedRig(rig=rig, skus={}, sources={}, file=DEFAULTS, kinds=kinds)
