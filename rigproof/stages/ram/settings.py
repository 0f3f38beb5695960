"""The RAM stage's table in a profile."""

from typing import ClassVar

from pydantic import Field

from rigproof.profiles.tables.base import Positive, Share
from rigproof.profiles.tables.levels import SomeLevels
from rigproof.profiles.tables.stages import OptionalSettings

STAGE = "ram"
GB = "GB"  # 10^9 bytes: the unit of these rounds
COPY, FILL, VERIFY = "copy", "fill", "verify"  # operations
LEAST_CACHES = 2  # of less memory than the caches hold so many times, they keep a part
PATTERNS = ("address", "random", "complement")  # in this order


class RamSettings(OptionalSettings):
    """How fast each host copies RAM, and whether its free RAM keeps what is written to it."""

    length_s: SomeLevels = Field(
        description="Length of the stage, in s, by level. 0: the stage does not run at that level. The more "
        "time, the more of the free memory is tested with patterns."
    )
    buffer_gib: Positive = Field(
        description="Size of what is copied, in GiB, by all threads together. Four times the CPU's caches "
        "are copied if that is more."
    )
    reserve_gib: Positive = Field(description="RAM that always remains free, in GiB.")
    reserve_share: Share = Field(
        description="RAM that always remains free, as a share of what may be used (of the container's limit, "
        "if there is one), if that is more than reserve_gib."
    )
    least_gib: Positive = Field(
        description="Smallest amount of RAM, in GiB, that must have been tested with patterns. With less, "
        "the host's memory is not measured."
    )
    peer_share: Share = Field(
        description="Smallest rate of copies, as a share of the median of the other hosts of this kind: the "
        "same CPU model, as many CPUs, and as much RAM."
    )
    floor_gbps: Positive | None = Field(
        default=None,
        description="Smallest rate of copies, in GB/s, bytes read and written. It takes the place of "
        "peer_share. Left out: none.",
    )

    of_rig: ClassVar[frozenset[str]] = frozenset({"length_s"})
