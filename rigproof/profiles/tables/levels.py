"""The levels of a run, and lengths that each of them has."""

from pydantic import Field

from rigproof.profiles.tables.base import PerhapsNone, Share, StageLength, Table
from rigproof.profiles.tables.level_names import LEVELS, LevelName

__all__ = ["LEVELS", "EveryLevel", "LevelName", "Levels", "SomeLevels"]


class EveryLevel(Table):
    """Seconds at each level."""

    quick: StageLength = Field(description="Seconds at the level quick, a run of about 1 minute.")
    standard: StageLength = Field(description="Seconds at the level standard, a run of about 3 minutes.")
    extended: StageLength = Field(description="Seconds at the level extended, a run of about 15 minutes.")
    soak: StageLength = Field(description="Seconds at the level soak, a run of an hour and more.")

    def at(self, level: LevelName) -> float:
        """Seconds at this level."""
        seconds: float = getattr(self, level)
        return seconds


class SomeLevels(EveryLevel):
    """Seconds at each level. 0: the stage does not run at that level."""

    quick: PerhapsNone = Field(
        default=0.0, description="Seconds at the level quick, a run of about 1 minute."
    )
    standard: PerhapsNone = Field(
        default=0.0, description="Seconds at the level standard, a run of about 3 minutes."
    )
    extended: PerhapsNone = Field(
        default=0.0, description="Seconds at the level extended, a run of about 15 minutes."
    )
    soak: PerhapsNone = Field(
        default=0.0, description="Seconds at the level soak, a run of an hour and more."
    )


class Levels(Table):
    """The levels' settings that belong to no single stage; the stages' lengths are in their own tables."""

    round_s: EveryLevel = Field(
        description="Length of a round of work that is aimed at, in s; at least 0.02. Each round is timed "
        "and verified as a whole."
    )
    soak_s: StageLength = Field(
        default=3600.0,  # of recordings from before there was this key
        description="Length of a soak, in s: it goes round its stages as often as comes nearest to that. "
        "`--duration` states another one for a single run.",
    )
    least_share: Share = Field(
        description="A run in which a stage did less than this share of the level's own length is not "
        "called a run of that level. Only hwprofiles/defaults.toml may state it."
    )
    least_work_share: Share = Field(
        description="A stage that ends when its work is done counts in full if it took at least this share "
        "of its length. Only hwprofiles/defaults.toml may state it."
    )
