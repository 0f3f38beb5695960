"""The base classes of the stages' tables, `[stages.<name>]`, which are in the stages' folders."""

from typing import ClassVar

from pydantic import Field

from rigproof.profiles.tables.base import Table
from rigproof.profiles.tables.levels import EveryLevel


class StageSettings(Table):
    """The complete settings of one stage. `of_rig`: keys that no GPU or node can override."""

    of_rig: ClassVar[frozenset[str]] = frozenset()


class TimedSettings(StageSettings):
    """The settings of a stage with a length; if a level may leave it out, its lengths are `SomeLevels`."""

    of_rig: ClassVar[frozenset[str]] = frozenset({"length_s"})

    length_s: EveryLevel = Field(description="Length of the load, in s, by level.")


class StageTables(Table):
    """One table for each stage."""
