"""The sharing stage's table in a profile."""

from typing import Annotated

from pydantic import Field

from rigproof.profiles.tables.base import Share
from rigproof.profiles.tables.stages import OptionalSettings


class SharingSettings(OptionalSettings):
    """The same work by one process, then by several processes that share the GPU."""

    workers: tuple[Annotated[int, Field(ge=1, le=16, strict=True)], ...] = Field(
        description="Numbers of processes that are compared; the first is 1."
    )
    vram_share: Share = Field(description="Share of the card's memory that the processes fill together.")
    sharing_share: Share = Field(
        description="Smallest rate of several processes together, as a share of the rate of one alone."
    )

    @property
    def most_workers(self) -> int:
        """The largest number of processes at a time."""
        return max(self.workers, default=0)
