"""The base classes of the stages' tables, `[stages.<name>]`, which are in the stages' folders."""

from typing import ClassVar

from pydantic import Field

from rigproof.profiles.tables.base import Table
from rigproof.profiles.tables.levels import EveryLevel, SomeLevels


class StageSettings(Table):
    """The complete settings of one stage. `of_rig`: keys that no GPU or node can override."""

    of_rig: ClassVar[frozenset[str]] = frozenset()


class TimedSettings(StageSettings):
    """The settings of a stage with a length."""

    of_rig: ClassVar[frozenset[str]] = frozenset({"length_s"})

    length_s: EveryLevel = Field(description="Length of the load, in s, by level.")


class OptionalSettings(TimedSettings):
    """The settings of a stage that a level may leave out."""

    length_s: SomeLevels = Field(
        description="Length of the stage, in s, by level. 0: the stage does not run at that level."
    )


class StageTables(Table):
    """One table for each stage."""
