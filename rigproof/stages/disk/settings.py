"""The disk stage's table in a profile."""

from typing import ClassVar

from pydantic import Field

from rigproof.profiles.tables.base import Positive, Share, Table
from rigproof.profiles.tables.level_names import LevelName
from rigproof.profiles.tables.levels import SomeLevels
from rigproof.profiles.tables.stages import OptionalSettings

STAGE = "disk"
MB = "MB"  # 10^6 bytes: the unit of these rounds
WRITE, READ = "write", "read"  # operations


class LevelGib(Table):
    """GiB at each level."""

    quick: Positive = Field(default=1.0, description="GiB at the level quick.")
    standard: Positive = Field(default=1.0, description="GiB at the level standard.")
    extended: Positive = Field(default=1.0, description="GiB at the level extended.")
    soak: Positive = Field(default=1.0, description="GiB at the level soak.")

    def at(self, level: LevelName) -> float:
        """GiB at this level."""
        gib: float = getattr(self, level)
        return gib


class DiskSettings(OptionalSettings):
    """Each host writes a file where checkpoints are written, past the page cache, and reads it back."""

    length_s: SomeLevels = Field(
        description="Length of the stage, in s, by level. 0: the stage does not run at that level. What has "
        "not been written by half of it is not written."
    )
    path: str = Field(
        description="Folder in which checkpoints are written: an absolute path, or one that begins with ~, "
        "the home of the user who runs Ray on that host. The file has no name there, and is gone with the "
        "process that wrote it."
    )
    most_gib: LevelGib = Field(
        description="Size of the file at most, in GiB, by level: `{ standard = 1, extended = 8 }`. It never "
        "takes more than half of what is free beside reserve_gib."
    )
    reserve_gib: Positive = Field(description="Disk space that always remains free, in GiB.")
    free_warn_share: Share = Field(description="Less free space than this share of the disk warns.")
    used_fail_share: Share = Field(
        description="A disk of which this share is in use, or more, is full: others have filled it, and the "
        "run ends INCOMPLETE."
    )
    peer_share: Share = Field(
        description="Smallest rate of writing and of reading, as a share of the median of the other hosts of "
        "this kind (CPU model, number of CPUs, RAM) with the same file system."
    )
    write_floor_mbps: Positive | None = Field(
        default=None,
        description="Smallest rate of writing, in MB/s. It takes the place of peer_share. Left out: none.",
    )
    read_floor_mbps: Positive | None = Field(
        default=None,
        description="Smallest rate of reading, in MB/s. It takes the place of peer_share. Left out: none.",
    )

    of_rig: ClassVar[frozenset[str]] = frozenset({"length_s", "most_gib"})
