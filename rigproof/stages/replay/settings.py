"""The replay stage's table in a profile."""

from typing import Annotated

from pydantic import Field

from rigproof.profiles.tables.base import Share
from rigproof.profiles.tables.stages import OptionalSettings
from rigproof.profiles.tables.work import Count, OfEight, Portion

STAGE = "replay"
# Fewer do not show that the loss falls; the most is what a round of steps has room for.
Steps = Annotated[int, Field(ge=4, le=256, strict=True)]


class ReplaySettings(OptionalSettings):
    """Some training steps, repeated from the same start: every value must have the same bits each time."""

    sequence: OfEight = Field(description="Length of each example, in tokens.")
    model_share: Portion = Field(
        description="Share of the memory of the GPU's workers that weights, gradients and optimizer take; "
        "the model is as wide as fits."
    )
    batch: Count = Field(description="Number of examples in a step.")
    steps: Steps = Field(description="Number of steps that are repeated.")
    loss_share: Share | None = Field(
        default=None,
        description="Highest loss of the last step, as a share of the first one's: the batch is the same in "
        "every step, so its loss must fall.",
    )
    own_share: Share | None = Field(
        default=None,
        description="Smallest rate of the steps, as a share of what follows from the card's own training "
        "steps of the same model and batch.",
    )
