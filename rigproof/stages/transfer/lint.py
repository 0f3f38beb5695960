"""Lint of settings with which transfers could not be measured."""

from collections.abc import Iterator

from rigproof.profiles.lint.limits import Bound, stage_limit_problems
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.levels import LevelName
from rigproof.stages.transfer.settings import STAGE

BOUNDS = {
    # 1 GiB takes 0.4 s to pin.
    "setup_s": Bound(lowest=0.2, below="is over before the memory is pinned and the links are awake"),
    "alone_s": Bound(
        0.1, 2.0, "leaves too few copies for a rate", "makes a host with many GPUs wait for minutes"
    ),
    # On an H200, 64 MiB give the rate of 1 GiB; at 8 MiB a launch is 3 % of the copy.
    "buffer_mib": Bound(lowest=8, below="measures the launch of a copy along with it"),
    # Full duplex gives 1.4 to 1.8 of one way on H100 and H200: 0.7 to 0.9 of both.
    "both_share": Bound(0.3, 0.95, "passes a link that stalls both ways", "fails sound cards"),
    # Eight cards behind one switch have an eighth each.
    "together_share": Bound(
        0.05, 0.97, "passes even eight cards on the lanes of a half", "fails sound cards"
    ),
}


def problems(loaded: LoadedRig, _level: LevelName) -> Iterator[str]:
    """Problems about times and amounts that are too small, and limits that could never fail."""
    yield from stage_limit_problems(loaded, STAGE, BOUNDS)
