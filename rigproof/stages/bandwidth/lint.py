"""Settings with which no bandwidth could be measured."""

from collections.abc import Iterator

from rigproof.profiles.lint.limits import Bound, stage_limit_problems
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.levels import LevelName
from rigproof.stages.bandwidth.settings import STAGE

BOUNDS = {
    # L2 caches hold up to 126 MiB (B200): a buffer of twice that leaves little of a round in them.
    "buffer_gib": Bound(lowest=0.25, below="measures the card's cache with its memory"),
}


def problems(loaded: LoadedRig, _level: LevelName) -> Iterator[str]:
    """Buffers that are too small."""
    yield from stage_limit_problems(loaded, STAGE, BOUNDS)
