"""Lint of settings with which the replayed steps could not be judged."""

from collections.abc import Iterator

from rigproof.profiles.lint.limits import Bound, stage_limit_problems
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.levels import LevelName
from rigproof.stages.replay.settings import STAGE

BOUNDS = {
    # Measured: 0.69 to 0.89 after eight steps, for models of width 64 to 256.
    "loss_share": Bound(0.5, 0.99, "fails sound cards", "passes steps that hardly train"),
}


def problems(loaded: LoadedRig, _level: LevelName) -> Iterator[str]:
    """Problems with the limit of the loss."""
    yield from stage_limit_problems(loaded, STAGE, BOUNDS)
