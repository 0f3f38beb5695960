"""Lint of settings with which a host's RAM could not be measured, or with which it would run out."""

from collections.abc import Iterator

from rigproof.profiles.lint.limits import Bound, stage_limit_problems
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.levels import LevelName
from rigproof.stages.ram.settings import STAGE

BOUNDS = {
    # Desktop CPUs have up to 128 MiB of cache. Servers have more; there four times their caches are copied.
    "buffer_gib": Bound(lowest=0.25, below="measures the CPU's cache along with its memory"),
    "reserve_gib": Bound(lowest=1.0, below="drives a host that does anything else out of memory"),
    "reserve_share": Bound(highest=0.9, above="leaves next to nothing to test"),
    "least_gib": Bound(lowest=0.25, below="accepts a test of the CPU's cache"),
    # A host that lacks one of two memory channels still has half of the rate.
    "peer_share": Bound(0.6, 0.98, "accepts a host without half of its memory channels", "fails sound hosts"),
    "floor_gbps": Bound(lowest=2.0, below="is less than a single module of DDR3 gives"),
}


def problems(loaded: LoadedRig, _level: LevelName) -> Iterator[str]:
    """Problems of the rig's settings, and of those that a node states itself."""
    yield from stage_limit_problems(loaded, STAGE, BOUNDS)
