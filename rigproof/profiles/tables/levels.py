"""The levels of a run, and lengths that each of them has."""

from typing import Literal, get_args

from pydantic import Field

from rigproof.profiles.tables.base import PerhapsNone, Share, StageLength, Table

LevelName = Literal["quick", "standard", "extended", "soak"]
LEVELS: tuple[LevelName, ...] = get_args(LevelName)


class EveryLevel(Table):
    """Seconds at each level."""

    quick: StageLength = Field(description="at the level of about 1 minute")
    standard: StageLength = Field(description="of about 3 minutes")
    extended: StageLength = Field(description="of about 15 minutes")
    soak: StageLength = Field(description="of an hour and more")

    def at(self, level: LevelName) -> float:
        """Seconds at this level."""
        seconds: float = getattr(self, level)
        return seconds


class SomeLevels(EveryLevel):
    """Seconds at each level that has this stage; 0 or absent: not at that level."""

    quick: PerhapsNone = Field(default=0.0, description="at the level of about 1 minute")
    standard: PerhapsNone = Field(default=0.0, description="of about 3 minutes")
    extended: PerhapsNone = Field(default=0.0, description="of about 15 minutes")
    soak: PerhapsNone = Field(default=0.0, description="of an hour and more")


class Levels(Table):
    """The levels' settings that belong to no single stage; the stages' lengths are in their own tables."""

    round_s: EveryLevel = Field(description="aimed length of one round, at least 0.02")
    least_share: Share = Field(
        description="of a level's own length: a shorter run is named by what was done; not a setting of a rig"
    )
    least_work_share: Share = Field(
        description="of their length: the least that stages which end with their work must fill; as above"
    )
