"""The transient stage's table in a profile."""

from typing import Annotated, ClassVar

from pydantic import Field

from rigproof.profiles.tables.base import Flag, Positive, Share
from rigproof.profiles.tables.stages import OptionalSettings

STAGE = "transient"
Frequency = Annotated[int, Field(ge=1, le=20, strict=True)]  # Hz


class TransientSettings(OptionalSettings):
    """Whether a host stands the load of its GPUs switching on and off together: square waves, in phase."""

    of_rig: ClassVar[frozenset[str]] = frozenset(
        {
            "length_s",
            "frequencies_hz",
            "most_steps",
            "least_waves",
            "wave_share",
            "phase_ms",
            "phase_share",
            "duty_share",
            "others_share",
            "fall_share",
            "psu_share",
        }
    )

    frequencies_hz: tuple[Frequency, ...] = Field(
        description="Frequencies of the waves, in Hz; each wave is on for half of its period."
    )
    most_steps: Annotated[int, Field(ge=1, le=64, strict=True)] = Field(
        description="Largest number of steps in which the GPUs of a host join the waves: one GPU more at "
        "each step, or several on a host with more GPUs."
    )
    with_display: Flag = Field(
        description="true: a GPU takes part although a display is active on it, or NVML does not say whether "
        "one is. A desktop there stutters, and a reset ends it. false: it is left out."
    )
    least_waves: Annotated[int, Field(ge=1, le=1000, strict=True)] = Field(
        description="Fewest waves of each frequency at each step."
    )
    wave_share: Share = Field(
        description="Smallest share of the waves of each frequency at each step that all their GPUs must "
        "have made: verified, square and in phase. With fewer, nothing was measured; but one may always be "
        "missing."
    )
    phase_ms: Positive = Field(
        description="The bursts of a wave are in phase if they begin within this time of each other, in ms."
    )
    phase_share: Share = Field(
        description="The same, as a share of the period. Of both limits the smaller one holds."
    )
    duty_share: tuple[Share, Share] = Field(
        description="A wave is square if its bursts last at least and at most these shares of its period."
    )
    others_share: Share = Field(
        description="Smallest rate of a GPU in its bursts, as a share of its rate before more GPUs took "
        "part, of that at a lower frequency, and of that in the sustained stage."
    )
    fall_share: Share = Field(
        description="Smallest rate of a GPU in the last third of its bursts of a frequency and step, as a "
        "share of that in the first third; and of all but the slowest fifth of "
        "them, as a share of their median."
    )
    psu_share: Share = Field(
        description="Largest sum of what all cards of a node draw at a moment, as sampled, as a share of the "
        "node's psu_w. More warns."
    )
