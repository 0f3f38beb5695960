"""hwprofiles/defaults.toml by itself: the levels' own lengths, regardless of rigs and options."""

from functools import cache

from rigproof.profiles.kinds.models import models_of
from rigproof.profiles.kinds.stages import StageKinds
from rigproof.profiles.loading.files import DEFAULTS, profile_folder, read_toml
from rigproof.profiles.loading.loaded import LoadedRig


@cache
def default_rig(kinds: StageKinds) -> LoadedRig:
    """A rig without nodes. Raises ProfileError."""
    tables = read_toml(profile_folder() / "defaults.toml")
    rig = models_of(kinds).rig.model_validate(tables)
    return LoadedRig(rig=rig, skus={}, sources={}, file=DEFAULTS, kinds=kinds)
