"""What the tables of the stages, `[stages.<name>]`, are made from; they themselves are the stages' own."""

from typing import ClassVar

from pydantic import Field

from rigproof.profiles.tables.base import Table
from rigproof.profiles.tables.levels import EveryLevel


class StageSettings(Table):
    """The settings of one stage, complete. `of_rig`: those that no GPU can state for itself."""

    of_rig: ClassVar[frozenset[str]] = frozenset()


class TimedSettings(StageSettings):
    """Of a stage that is given a time; where a level may go without it, its lengths are `SomeLevels`."""

    of_rig: ClassVar[frozenset[str]] = frozenset({"length_s"})

    length_s: EveryLevel = Field(description="of its load")


class StageTables(Table):
    """One table for each stage."""
