"""The sharing stage's table in a profile."""

from typing import Annotated

from pydantic import Field

from rigproof.profiles.tables.base import Share
from rigproof.profiles.tables.levels import SomeLevels
from rigproof.profiles.tables.stages import TimedSettings


class SharingSettings(TimedSettings):
    """The same work by one process, then by several that share the GPU."""

    length_s: SomeLevels = Field(description="by level; 0 or absent: not at that level")
    workers: tuple[Annotated[int, Field(ge=1, le=16, strict=True)], ...] = Field(
        description="numbers of processes to compare, beginning with 1"
    )
    vram_share: Share = Field(description="of the card, all processes together")
    sharing_share: Share = Field(
        description="least rate of several processes together, relative to one alone"
    )

    @property
    def most_workers(self) -> int:
        """The largest number of processes at a time."""
        return max(self.workers, default=0)
