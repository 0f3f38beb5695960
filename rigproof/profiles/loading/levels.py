"""Reads the defaults alone: the lengths of the levels, whatever a rig or an option says."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from rigproof.profiles.kinds.models import models_of
from rigproof.profiles.kinds.stages import StageKinds
from rigproof.profiles.loading.defaults import default_layers, of_cpus_alone
from rigproof.profiles.loading.files import DEFAULTS
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.loading.merge import merge


def default_rig(kinds: StageKinds, rig: Mapping[str, Any] | None = None) -> LoadedRig:
    """Every default, and no nodes. Raises ProfileError.

    `rig`: the tables of the rig whose defaults they are, as a run records them; None: of one with a GPU.
    """
    return _default_rig(kinds, of_cpus_alone(rig or {}))


@cache
def _default_rig(kinds: StageKinds, cpus_alone: bool) -> LoadedRig:
    rig = models_of(kinds).rig.model_validate(merge(default_layers(cpus_alone=cpus_alone)).tree)
    return LoadedRig(rig=rig, skus={}, sources={}, file=DEFAULTS, kinds=kinds)
