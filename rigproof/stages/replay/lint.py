"""Lint of settings with which the replayed steps could not be judged."""

from collections.abc import Iterator

from rigproof.profiles.lint.limits import Bound, stage_limit_problems
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.levels import LevelName
from rigproof.stages.replay.settings import STAGE

BOUNDS = {
    # Measured after eight steps: 0.93 for a model of width 64, 0.69 for one of width 256.
    "loss_share": Bound(0.5, 0.99, "fails sound cards", "passes steps that hardly train"),
}


def problems(loaded: LoadedRig, _level: LevelName) -> Iterator[str]:
    """Problems with the limit of the loss."""
    yield from stage_limit_problems(loaded, STAGE, BOUNDS)
