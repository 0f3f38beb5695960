"""The pattern stage's table in a profile, and the patterns that it writes."""

from typing import ClassVar, Literal, get_args

from pydantic import Field

from rigproof.profiles.tables.base import Positive, Share
from rigproof.profiles.tables.levels import SomeLevels
from rigproof.profiles.tables.stages import OptionalSettings

STAGE = "pattern"
GB = "GB"  # 10^9 bytes read and written: the unit of these rounds

Operation = Literal["write", "invert", "check"]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)
COLD, HOT = "cold", "hot"

MEANINGS = {  # of the patterns, in the order of the passes
    "address": "each word holds its own address",
    "modulo-20": "every twentieth word differs from all others",
    "random": "random words, from a seed",
    "walking": "a single bit that moves on from word to word",
    "bit-fade": "all bits alike, compared after a pause",
}
FADE = "bit-fade"


class PatternSettings(OptionalSettings):
    """Whether memory keeps what it is given: nearly all that is free is filled, compared and inverted."""

    of_rig: ClassVar[frozenset[str]] = OptionalSettings.of_rig | {"fade_s"}

    length_s: SomeLevels = Field(
        description="Length of the passes, in s, by level; each pattern is done at least once. 0: the stage "
        "does not run at that level."
    )
    fade_s: SomeLevels = Field(
        description="Pause between writing and reading the pattern bit-fade, in s, by level; there are two, "
        "after the passes. 0: that pattern is left out at that level."
    )
    free_share: Share = Field(
        description="Share of the memory that is free when the stage begins, or of the cap of "
        "`memory.fraction_share` if that is less, that is filled. The rest is for the counts. Less is filled "
        "if otherwise `limits.headroom_gib` would not stay free, but not less than `tested_share`."
    )
    tested_share: Share = Field(
        description="Smallest share of that memory, and of what the GPU's workers fill in the sustained "
        "stage, that must have been tested."
    )
    hot_share: Share = Field(
        description="Smallest rate of reading at the end of the passes, as a share of the rate at their "
        "beginning, for a card without a memory temperature sensor."
    )
    own_share: Share | None = Field(
        default=None,
        description="Smallest rate of the fastest passes, as a share of what follows from the card's own "
        "memory bandwidth.",
    )
    cpu_mib: Positive = Field(description="Host memory that is tested if the CPU is the device, in MiB.")


def patterns_with(fade_s: float) -> tuple[str, ...]:
    """The patterns of a stage with these pauses."""
    return tuple(name for name in MEANINGS if name != FADE or fade_s)
