"""Lint of settings with which bandwidth could not be measured."""

from collections.abc import Iterator

from rigproof.profiles.lint.limits import Bound, stage_limit_problems
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.levels import LevelName
from rigproof.stages.bandwidth.settings import STAGE

BOUNDS = {
    # L2 caches hold up to 126 MiB (B200): of a buffer of twice that, they hold little.
    "buffer_gib": Bound(lowest=0.25, below="measures the card's cache along with its memory"),
}


def problems(loaded: LoadedRig, _level: LevelName) -> Iterator[str]:
    """Problems about buffers that are too small."""
    yield from stage_limit_problems(loaded, STAGE, BOUNDS)
